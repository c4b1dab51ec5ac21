//! What goes wrong on purpose when the API is asked, and how endings are told wrongly.
//!
//! A fault is scoped by a count, a time, a method and a part of the path; the first that matches is
//! spent. Some answer instead of the API; the others let the API act and spoil its answer, so that a
//! create whose answer was lost has still made its job.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::state::plan::WebhookPlan;
use crate::base::clock::Timestamp;

/// Longest hang, whatever was asked.
pub(crate) const LONGEST_HANG: Duration = Duration::from_mins(2);

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// 429 `RESOURCE_EXHAUSTED`; with `RetryInfo` when `retry_after_ms` is given.
    RateLimited,
    /// 500 `INTERNAL`.
    ServerError,
    /// 503 `UNAVAILABLE`.
    Unavailable,
    /// 502 with a proxy's HTML page.
    BadGateway,
    /// 404 in Google's envelope, as if the resource were not there.
    NotFound,
    /// 404 with an HTML page, as a proxy or a wrong base URL answers.
    HtmlNotFound,
    /// 400 `API_KEY_INVALID`.
    KeyInvalid,
    /// 401 `UNAUTHENTICATED`.
    Unauthenticated,
    /// 402, the credit is used up.
    PaymentRequired,
    /// 403 `PERMISSION_DENIED`.
    Forbidden,
    /// The API acts, but the answer comes `ms` later (30,000 when absent, two minutes at most).
    Hang,
    /// The API acts, then the connection breaks before a byte of the answer's body.
    Reset,
    /// The API acts, but the answer stops half way although its length promised more.
    Truncated,
    /// The API acts, but the answer is no JSON.
    Garbage,
    /// The API acts, but the answer carries the name of another resource.
    WrongName,
    /// The API acts, but its `Date` is `ms` ahead (ten minutes when absent).
    DateAhead,
    /// The API acts, but its `Date` is `ms` behind (ten minutes when absent).
    DateBehind,
}

/// One fault and where it applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub fault: FaultKind,
    /// How often; absent means once (or without end while `for_ms` lasts), 0 means until cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// For how many milliseconds from now.
    #[serde(default, alias = "forMs", skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Only where the path holds this text, such as an operation's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only for this method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// How long a hang lasts, or how far a date is off, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// What `RetryInfo` and `Retry-After` ask for, in milliseconds.
    #[serde(
        default,
        alias = "retryAfterMs",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry_after_ms: Option<u64>,
}

impl Fault {
    /// This fault once, anywhere.
    pub fn once(fault: FaultKind) -> Self {
        Self {
            fault,
            count: None,
            for_ms: None,
            name: None,
            method: None,
            ms: None,
            retry_after_ms: None,
        }
    }

    /// How often.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.count = Some(count);
        self
    }

    /// Only where the path holds `name`.
    #[must_use]
    pub fn on(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only for this method.
    #[must_use]
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// The time that this fault tells instead of `now`.
    pub(crate) fn date(&self, now: Timestamp) -> Timestamp {
        let by = Duration::from_millis(self.ms.unwrap_or(600_000));
        if self.fault == FaultKind::DateAhead {
            now.after(by)
        } else {
            now.before(by)
        }
    }

    pub(crate) fn hang(&self) -> Duration {
        Duration::from_millis(self.ms.unwrap_or(30_000)).min(LONGEST_HANG)
    }
}

/// The next events are told like this, whatever their jobs planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookFault {
    /// How they are told.
    pub webhook: WebhookPlan,
    /// How many; absent means one, 0 means until cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Only those of jobs whose name holds this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug)]
struct Scope {
    /// `None` has no end.
    left: Option<u32>,
    until: Option<Timestamp>,
}

impl Scope {
    fn new(count: Option<u32>, for_ms: Option<u64>, now: Timestamp) -> Self {
        Self {
            left: match (count, for_ms) {
                (Some(0), _) | (None, Some(_)) => None,
                (Some(count), _) => Some(count),
                (None, None) => Some(1),
            },
            until: for_ms.map(|ms| now.after(Duration::from_millis(ms))),
        }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.left == Some(0) || self.until.is_some_and(|until| now >= until)
    }

    fn spend(&mut self) {
        self.left = self.left.map(|left| left.saturating_sub(1));
    }
}

/// The faults that are set.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    http: Vec<(Fault, Scope)>,
    webhooks: Vec<(WebhookFault, Scope)>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault, now: Timestamp) {
        let scope = Scope::new(fault.count, fault.for_ms, now);
        self.http.push((fault, scope));
    }

    pub(crate) fn add_webhook(&mut self, fault: WebhookFault, now: Timestamp) {
        let scope = Scope::new(fault.count, None, now);
        self.webhooks.push((fault, scope));
    }

    pub(crate) fn clear(&mut self) {
        self.http.clear();
        self.webhooks.clear();
    }

    /// The fault that strikes this request, if any.
    pub(crate) fn take(&mut self, method: &str, path: &str, now: Timestamp) -> Option<Fault> {
        self.http.retain(|(_, scope)| !scope.is_over(now));
        let (fault, scope) = self.http.iter_mut().find(|(fault, _)| {
            let here = fault.name.as_ref().is_none_or(|name| path.contains(name));
            let asked = fault.method.as_ref();
            here && asked.is_none_or(|m| m.eq_ignore_ascii_case(method))
        })?;
        scope.spend();
        Some(fault.clone())
    }

    /// How the event of this job is told, if a fault overrules its plan.
    pub(crate) fn take_webhook(&mut self, name: &str, now: Timestamp) -> Option<WebhookPlan> {
        self.webhooks.retain(|(_, scope)| !scope.is_over(now));
        let (fault, scope) = self
            .webhooks
            .iter_mut()
            .find(|(fault, _)| fault.name.as_ref().is_none_or(|part| name.contains(part)))?;
        scope.spend();
        Some(fault.webhook)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::plan::Mode;
    use super::*;

    #[test]
    fn a_fault_is_spent_by_its_count_and_strikes_only_its_name_and_method() {
        let (mut faults, now) = (Faults::default(), Timestamp::from_millis(0));
        let fault = Fault::once(FaultKind::ServerError)
            .times(2)
            .on("batches/a")
            .method("get");
        faults.add(fault, now);
        let mut strikes = |method: &str, path: &str| faults.take(method, path, now).is_some();
        assert!(!strikes("GET", "/v1/batches/b"));
        assert!(!strikes("POST", "/v1/batches/a:cancel"));
        assert!(strikes("GET", "/v1/batches/a"));
        assert!(strikes("GET", "/v1/batches/a"));
        assert!(!strikes("GET", "/v1/batches/a"));
    }

    #[test]
    fn a_fault_with_a_time_lasts_so_long_and_a_zero_count_until_cleared() {
        let (mut faults, now) = (Faults::default(), Timestamp::from_millis(0));
        let mut timed = Fault::once(FaultKind::NotFound);
        timed.for_ms = Some(10);
        faults.add(timed, now);
        for at in [0, 9] {
            assert!(
                faults
                    .take("GET", "/", Timestamp::from_millis(at))
                    .is_some()
            );
        }
        assert!(
            faults
                .take("GET", "/", Timestamp::from_millis(10))
                .is_none()
        );
        faults.add(Fault::once(FaultKind::Reset).times(0), now);
        for _ in 0..5 {
            assert!(faults.take("GET", "/", now).is_some());
        }
        faults.clear();
        assert!(faults.take("GET", "/", now).is_none());
    }

    #[test]
    fn a_webhook_fault_overrules_the_plan_of_the_next_event() {
        let (mut faults, now) = (Faults::default(), Timestamp::from_millis(0));
        let webhook = WebhookPlan::of(Mode::Drop);
        faults.add_webhook(
            WebhookFault {
                webhook,
                count: None,
                name: None,
            },
            now,
        );
        assert_eq!(faults.take_webhook("batches/a", now), Some(webhook));
        assert_eq!(faults.take_webhook("batches/a", now), None);
    }
}
