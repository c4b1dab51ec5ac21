//! The five operations, told line by line.
//!
//! What is claimed was seen from outside: in the admin API, at the receiver of the effects, and in
//! the simulator's record of what its webhooks were answered. The file is not looked into here.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::claim::{Claim, What};
use super::stage::Stage;
use super::tale::Tale;
use crate::cli::failure::Failure;
use crate::domain::operation::OperationState;
use crate::domain::work::Reason;
use crate::simulator::{DeliveryReport, DeliveryState, Kind, Mode, NewJob, Outcome, WebhookPlan};

/// Time between two looks from outside.
const LOOK: Duration = Duration::from_millis(20);

/// Tells one story on one stage.
pub(super) struct Teller<'a> {
    stage: &'a Stage,
    out: &'a mut dyn Write,
    tale: &'a mut Tale,
}

impl<'a> Teller<'a> {
    pub(super) fn new(stage: &'a Stage, out: &'a mut dyn Write, tale: &'a mut Tale) -> Self {
        Self { stage, out, tale }
    }

    /// All five.
    pub(super) async fn tell(&mut self) -> Result<(), Failure> {
        self.told().await?;
        self.lost().await?;
        self.told_twice().await?;
        self.forged().await?;
        self.failed().await
    }

    async fn told(&mut self) -> Result<(), Failure> {
        self.line("\n1. A batch ends, and its webhook tells.")?;
        let name = self.submit(Kind::Batch, Mode::Once).await?;
        self.finish(&name, Outcome::Succeeded)?;
        self.claim_heard(&name, 0).await?;
        self.claim_end(&name, Some(Reason::Webhook)).await
    }

    async fn lost(&mut self) -> Result<(), Failure> {
        self.line(
            "\n2. A video ends, but its webhook is lost: reconciliation asks after a grace.",
        )?;
        let name = self.submit(Kind::Video, Mode::Drop).await?;
        self.finish(&name, Outcome::Succeeded)?;
        self.claim_end(&name, Some(Reason::Reconcile)).await?;
        self.until(&name, |record| word(record, "told") == "rescued")
            .await?;
        self.claim(&name, What::Unheard)
    }

    async fn told_twice(&mut self) -> Result<(), Failure> {
        self.line("\n3. A batch ends, and its webhook comes twice.")?;
        let name = self.submit(Kind::Batch, Mode::Twice).await?;
        self.finish(&name, Outcome::Succeeded)?;
        self.claim_heard(&name, 1).await?;
        self.claim_end(&name, Some(Reason::Webhook)).await
    }

    async fn forged(&mut self) -> Result<(), Failure> {
        self.line("\n4. A video still runs, but a validly signed webhook says that it succeeded.")?;
        let name = self.submit(Kind::Video, Mode::Once).await?;
        let ids = self.stage.simulator.forge(&name, "video.generated");
        let ids = ids.map_err(|why| Failure::failed(format!("cannot forge: {why}")))?;
        self.delivered(&name, ids.len()).await?;
        let record = self
            .until(&name, |record| {
                record.get("attempts").and_then(Value::as_u64) > Some(0)
            })
            .await?;
        if word(&record, "state") != "pending" {
            return Err(Failure::failed(format!("{name} believed a forged webhook")));
        }
        for webhook_id in ids {
            self.claim(&name, What::Refuted { webhook_id })?;
        }
        self.line("   Now it really ends.")?;
        self.finish(&name, Outcome::Succeeded)?;
        self.claim_end(&name, None).await
    }

    async fn failed(&mut self) -> Result<(), Failure> {
        self.line("\n5. A batch fails; that is an ending too.")?;
        let name = self.submit(Kind::Batch, Mode::Once).await?;
        self.finish(&name, Outcome::Failed)?;
        self.claim_heard(&name, 0).await?;
        self.claim_end(&name, Some(Reason::Webhook)).await
    }

    /// Starts a job that ends when told, and registers it.
    async fn submit(&mut self, kind: Kind, webhook: Mode) -> Result<String, Failure> {
        let job = NewJob {
            manual: true,
            webhook: WebhookPlan::of(webhook),
            ..NewJob::new(kind)
        };
        let name = self.stage.simulator.start(job);
        let name = name.map_err(|why| Failure::failed(format!("cannot start a job: {why}")))?;
        let registration = json!({"name": name, "job_kind": "demo"});
        let client = &self.stage.client;
        client.post("/api/v1/operations", &registration).await?;
        self.line(&format!("   {name} is submitted and registered"))?;
        Ok(name)
    }

    fn finish(&self, name: &str, outcome: Outcome) -> Result<(), Failure> {
        let ended = self.stage.simulator.finish(name, outcome);
        ended.map_err(|why| Failure::failed(format!("cannot end {name}: {why}")))
    }

    /// Waits until one webhook and its copies were answered with 2xx, and claims it.
    async fn claim_heard(&mut self, name: &str, copies: u64) -> Result<(), Failure> {
        let expected = usize::try_from(copies).unwrap_or(usize::MAX) + 1;
        let first = self.delivered(name, expected).await?;
        let webhook_id = first.id;
        self.claim(name, What::Heard { webhook_id, copies })
    }

    /// Waits until so many webhooks about `name` were answered with 2xx; answers the first.
    async fn delivered(&self, name: &str, expected: usize) -> Result<DeliveryReport, Failure> {
        loop {
            let mut about = self.stage.simulator.deliveries();
            about.retain(|d| d.name == name && d.state == DeliveryState::Delivered);
            if about.len() >= expected
                && let Some(first) = about.into_iter().next()
            {
                return Ok(first);
            }
            self.stage.clock.sleep(LOOK).await;
        }
    }

    /// Waits until it is settled and its effect is done, and claims both.
    async fn claim_end(&mut self, name: &str, expected: Option<Reason>) -> Result<(), Failure> {
        let record = self
            .until(name, |record| {
                record.get("side_effect_done") == Some(&Value::Bool(true))
            })
            .await?;
        let state = OperationState::from_word(word(&record, "state"));
        let by = Reason::from_word(word(&record, "settled_by"));
        let (Some(state), Some(by)) = (state, by) else {
            return Err(Failure::failed(format!("{name} is done but not settled")));
        };
        if let Some(expected) = expected.filter(|expected| *expected != by) {
            return Err(Failure::failed(format!(
                "{name} settled by {}, not by {}: is this machine very busy?",
                by.as_str(),
                expected.as_str()
            )));
        }
        self.claim(name, What::Settled { state, by })?;
        let received = self.stage.sink.received();
        let receipt = received.into_iter().find(|r| r.operation == name);
        let receipt = receipt
            .ok_or_else(|| Failure::failed(format!("the effect of {name} never arrived")))?;
        self.claim(name, What::Delivered { key: receipt.key })
    }

    /// Asks the admin API for `name` until `holds`.
    async fn until(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
        let path = format!("/api/v1/operations/{name}");
        loop {
            let record = self.stage.client.get(&path, &[]).await?;
            if holds(&record) {
                return Ok(record);
            }
            self.stage.clock.sleep(LOOK).await;
        }
    }

    fn claim(&mut self, name: &str, what: What) -> Result<(), Failure> {
        let claim = Claim {
            operation: name.to_owned(),
            what,
        };
        self.line(&format!(" - {claim}"))?;
        self.tale.claims.push(claim);
        Ok(())
    }

    fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.out, "{text}")?;
        Ok(self.out.flush()?)
    }
}

fn word<'a>(record: &'a Value, field: &str) -> &'a str {
    record.get(field).and_then(Value::as_str).unwrap_or("")
}
