//! Which effects an operation gets, with the bodies they will carry.
//!
//! Called by the store inside the transaction that settles, flags or registers an operation. Pure:
//! the rules are the configuration's, the record is the transaction's, the key is derived from both,
//! so planning twice plans the same rows.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::payload;
use crate::base::clock::Timestamp;
use crate::domain::effect::{AmbiguousPolicy, EffectRule, Trigger, idempotency_key};
use crate::domain::ledger::{NewEffect, Operation, PlanEffects};

/// Plans by the configured rules.
#[derive(Debug, Clone, Default)]
pub struct Planner {
    rules: Vec<EffectRule>,
    alerts_to: Vec<String>,
}

impl Planner {
    /// A planner for these rules, sending alerts to the effects named in `alerts_to`.
    pub fn new(rules: Vec<EffectRule>, alerts_to: Vec<String>) -> Self {
        Self { rules, alerts_to }
    }

    /// The configured effects with what each does when an attempt's end is unknown.
    pub fn policies(&self) -> Vec<(String, AmbiguousPolicy)> {
        self.rules
            .iter()
            .map(|r| (r.name.clone(), r.ambiguous))
            .collect()
    }
}

impl PlanEffects for Planner {
    fn plan(&self, operation: &Operation, trigger: Trigger, at: Timestamp) -> Vec<NewEffect> {
        let (Some(name), Some(kind)) = (&operation.name, operation.kind) else {
            return Vec::new();
        };
        let id = operation.id.to_string();
        let nothing = Value::Null;
        let body = payload::Settled {
            timestamp: operation.settled_at.unwrap_or(at),
            id: &id,
            name,
            kind,
            job_kind: &operation.job_kind,
            state: trigger,
            settled_by: operation.settled_by,
            user_metadata: operation.user_metadata.as_ref(),
            summary: operation.summary.as_ref().unwrap_or(&nothing),
        };
        self.rules
            .iter()
            .filter(|rule| rule.matches(&operation.job_kind, trigger))
            .map(|rule| NewEffect {
                effect: rule.name.clone(),
                cause: trigger.as_str().to_owned(),
                idempotency_key: idempotency_key(name, &rule.name, trigger),
                payload: payload::settled(&body).to_vec(),
            })
            .collect()
    }

    fn plan_alert(
        &self,
        subject: &str,
        summary: &str,
        opened_at: Timestamp,
        recovered: bool,
        at: Timestamp,
    ) -> Vec<NewEffect> {
        let body = payload::alert(&payload::Alert {
            recovered,
            timestamp: at,
            subject,
            summary,
            since: opened_at,
            operation: None,
        });
        self.alerts_to
            .iter()
            .map(|effect| NewEffect {
                effect: effect.clone(),
                cause: "alert".to_owned(),
                idempotency_key: alert_key(subject, effect, opened_at, recovered),
                payload: body.to_vec(),
            })
            .collect()
    }
}

/// Leaves planning to the service: for a command that writes the file beside a service's
/// configuration it may not have. An alert that ends is told by what the command knows, since nothing
/// plans that later.
#[derive(Debug, Clone, Default)]
pub struct Undecided(Planner);

impl Undecided {
    /// One that sends alerts to the effects named in `alerts_to`.
    pub fn new(alerts_to: Vec<String>) -> Self {
        Self(Planner::new(Vec::new(), alerts_to))
    }
}

impl PlanEffects for Undecided {
    fn decides(&self) -> bool {
        false
    }

    fn plan(&self, _: &Operation, _: Trigger, _: Timestamp) -> Vec<NewEffect> {
        Vec::new()
    }

    fn plan_alert(
        &self,
        subject: &str,
        summary: &str,
        opened_at: Timestamp,
        recovered: bool,
        at: Timestamp,
    ) -> Vec<NewEffect> {
        self.0
            .plan_alert(subject, summary, opened_at, recovered, at)
    }
}

/// One key for each opening and each end of an alert, per effect.
fn alert_key(subject: &str, effect: &str, opened_at: Timestamp, recovered: bool) -> String {
    let what = if recovered { "recovered" } else { "opened" };
    let text = format!("alert|{subject}|{effect}|{}|{what}", opened_at.as_millis());
    data_encoding::BASE32_NOPAD
        .encode(&Sha256::digest(text))
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_decide_still_tells_that_an_alert_ended() {
        let undecided = Undecided::new(vec!["pager".to_owned()]);
        let at = Timestamp::from_millis(7);
        assert!(!undecided.decides());
        let told = undecided.plan_alert("queue/dead", "it is over", at, true, at);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].effect, "pager");
    }
}
