//! One work item: whom it means, what the API says, what follows.
//!
//! Nothing is written here. The result is a [`Plan`]: the looks to write down and how the item ends,
//! all of it for one transaction.
//!
//! Race: the ledger is read before the API is asked, and may have changed when the plan is written.
//! The store reads the record again inside its transaction, so at worst an answer is written that a
//! newer one has made superfluous; a settled record is never changed by it.

use crate::base::clock::{Clock, Timestamp};
use crate::base::failpoint::failpoint;
use crate::base::ids::Ids;
use crate::domain::fault::Fault;
use crate::domain::ledger::{Lease, Operation};
use crate::domain::observation::{Observation, Observed};
use crate::domain::operation::{OperationName, OperationRef};
use crate::domain::work::Outcome;
use crate::gemini::GeminiApi;
use crate::store::{Change, Close, Look, Reader, StoreError, Subject, WorkFailure};
use crate::telemetry::metrics;
use crate::telemetry::traces::Traces;

use super::decide;
use super::gate::Gate;
use super::policy::Policy;
use super::trace::{self, When};

/// What to write about one work item.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) looks: Vec<Look>,
    pub(super) close: Close,
    /// When the provider says that they ended, for those that have.
    pub(super) ended: Vec<(OperationName, Timestamp)>,
    /// The key was refused while this was looked at.
    pub(super) key_refused: Option<String>,
}

impl Plan {
    fn done(outcome: Outcome) -> Self {
        Self {
            looks: Vec::new(),
            close: Close::Done(outcome),
            ended: Vec::new(),
            key_refused: None,
        }
    }
}

/// Everything a look needs.
pub(super) struct Looker<'a> {
    pub(super) reader: &'a Reader,
    pub(super) api: &'a dyn GeminiApi,
    pub(super) clock: &'a dyn Clock,
    pub(super) ids: &'a dyn Ids,
    pub(super) policy: &'a Policy,
    pub(super) gate: &'a Gate,
    pub(super) traces: &'a Traces,
}

impl Looker<'_> {
    /// Looks at whatever `lease` means.
    pub(super) async fn look(&self, lease: &Lease) -> Result<Plan, StoreError> {
        let Some(reference) = OperationRef::parse(&lease.raw, lease.kind_hint) else {
            return Ok(Plan::done(Outcome::Unresolved));
        };
        let known = self.reader.resolve(&reference).await?;
        if known.is_empty() {
            self.unknown(lease, &reference).await
        } else {
            self.known(lease, &known).await
        }
    }

    /// Operations of the ledger. A short id may mean two: both are looked at.
    async fn known(&self, lease: &Lease, known: &[Operation]) -> Result<Plan, StoreError> {
        let mut plan = Plan::done(Outcome::NotTerminal);
        for operation in known {
            let Some(name) = &operation.name else {
                continue;
            };
            if operation.state.is_settled() {
                plan.close = Close::Done(Outcome::AlreadySettled);
                plan.looks
                    .push(self.entry(lease, operation, Change::Nothing, None));
                continue;
            }
            match self.fetch(lease, name).await {
                Ok(observation) => {
                    let change = self.change(&observation, Some(operation), lease);
                    plan.close = Close::Done(outcome_of(&change));
                    plan.ended.extend(observation.ended());
                    plan.looks
                        .push(self.entry(lease, operation, change, Some(observation)));
                }
                Err(Fault::NotFound) => {
                    let now = self.clock.now();
                    let change =
                        decide::on_not_found(operation, lease.reason, self.policy, now, self.ids);
                    plan.close = Close::Done(outcome_of(&change));
                    plan.looks.push(self.entry(lease, operation, change, None));
                }
                Err(fault) => {
                    // The rest is looked at when the item comes back; what was learned is kept.
                    return Ok(self.fail(lease, fault, plan).await);
                }
            }
        }
        Ok(plan)
    }

    /// A name that the ledger does not have: ours only if the API confirms it.
    async fn unknown(&self, lease: &Lease, reference: &OperationRef) -> Result<Plan, StoreError> {
        if !self.policy.adopt && lease.reservation.is_none() {
            return Ok(Plan::done(Outcome::NotOurs));
        }
        for name in reference.candidates() {
            if self.reader.is_pruned(&name).await? {
                return Ok(Plan::done(Outcome::Pruned));
            }
            match self.fetch(lease, &name).await {
                Ok(observation) => {
                    let change = self.change(&observation, None, lease);
                    let subject = Subject::Found {
                        name,
                        reservation: lease.reservation,
                    };
                    let mut plan = Plan::done(outcome_of(&change));
                    plan.ended.extend(observation.ended());
                    plan.looks
                        .push(self.found(lease, subject, change, observation));
                    return Ok(plan);
                }
                // Another way to read the short id may be the right one.
                Err(Fault::NotFound | Fault::Rejected { .. }) => {}
                // Another key's operation stays forbidden for ever; nobody waits for that longer than
                // for one that does not exist.
                Err(Fault::Forbidden { .. }) if self.is_given_up(lease) => {}
                Err(fault) => {
                    return Ok(self
                        .fail(lease, fault, Plan::done(Outcome::Unresolved))
                        .await);
                }
            }
        }
        Ok(self.wait_unresolved(lease))
    }

    /// Nobody knows it yet: a registration with that segment wakes it, else it is tried by its age.
    fn wait_unresolved(&self, lease: &Lease) -> Plan {
        if self.is_given_up(lease) {
            return Plan::done(Outcome::Unresolved);
        }
        let now = self.clock.now();
        let end = lease.created_at.after(self.policy.unresolved_ttl);
        let tries = lease.failures.saturating_add(1);
        let again = self
            .policy
            .next_try_unknown(lease.created_at, tries, now, self.ids);
        let failure = WorkFailure {
            again_at: again.min(end),
            why: "neither the ledger nor the API knows this operation (yet)".to_owned(),
            charged: false,
        };
        Plan {
            looks: Vec::new(),
            close: Close::Again(failure, self.policy.max_attempts),
            ended: Vec::new(),
            key_refused: None,
        }
    }

    /// Whether an item that nobody knows has waited for as long as it may.
    fn is_given_up(&self, lease: &Lease) -> bool {
        self.clock.now() >= lease.created_at.after(self.policy.unresolved_ttl)
    }

    async fn fetch(&self, lease: &Lease, name: &OperationName) -> Result<Observation, Fault> {
        let (at, began) = (self.clock.now(), self.clock.monotonic());
        failpoint!("fp-w2");
        let answer = self.api.operation(name).await;
        let outcome = match &answer {
            Ok(fetched) => match fetched.observation.observed {
                Observed::Ended(_) => "terminal",
                Observed::Running | Observed::RequiresAction | Observed::OutputPending => "running",
                Observed::Neither => "neither",
            },
            Err(fault) => fault.label(),
        };
        match &answer {
            Err(Fault::Unavailable { .. }) => self.gate.unreachable(self.clock.monotonic()),
            _ => self.gate.reached(),
        }
        let took = self.clock.monotonic().saturating_sub(began);
        metrics::fetch(outcome, took);
        self.traces.record(|| {
            let error = answer.is_err().then_some(outcome);
            trace::fetch(lease, name, When { began: at, took }, outcome, error)
        });
        answer.map(|fetched| fetched.observation)
    }

    async fn fail(&self, lease: &Lease, fault: Fault, mut plan: Plan) -> Plan {
        let (now, mono) = (self.clock.now(), self.clock.monotonic());
        if let Some(asked) = fault.retry_after() {
            self.gate.throttle(mono, asked);
        }
        plan.key_refused = match &fault {
            Fault::KeyRefused { what } => Some(what.clone()),
            // One forbidden name may be another key's operation; if the key may not even list, it
            // is the key.
            Fault::Forbidden { .. } => match self.api.probe().await {
                Err(Fault::KeyRefused { what } | Fault::Forbidden { what }) => Some(what),
                _ => None,
            },
            _ => None,
        };
        let failure = decide::on_fault(&fault, lease.failures, self.policy, now, self.ids);
        tracing::info!(
            operation = lease.raw,
            fault = fault.label(),
            again_at = %failure.again_at,
            "could not look at an operation: {fault}"
        );
        plan.close = Close::Again(failure, self.policy.max_attempts);
        plan
    }

    fn change(
        &self,
        observation: &Observation,
        known: Option<&Operation>,
        lease: &Lease,
    ) -> Change {
        let now = self.clock.now();
        decide::on_answer(observation, known, lease.reason, self.policy, now, self.ids)
    }

    fn entry(
        &self,
        lease: &Lease,
        operation: &Operation,
        change: Change,
        observation: Option<Observation>,
    ) -> Look {
        let kind = operation
            .kind
            .unwrap_or(crate::domain::operation::Kind::Operation);
        Look {
            subject: Subject::Known(operation.id),
            reason: lease.reason,
            change,
            summary: observation.map(|o| o.summary),
            terms: self.policy.terms(kind, self.clock.now()),
        }
    }

    fn found(
        &self,
        lease: &Lease,
        subject: Subject,
        change: Change,
        observation: Observation,
    ) -> Look {
        let now: Timestamp = self.clock.now();
        Look {
            subject,
            reason: lease.reason,
            change,
            terms: self.policy.terms(observation.name.kind(), now),
            summary: Some(observation.summary),
        }
    }
}

fn outcome_of(change: &Change) -> Outcome {
    match change {
        Change::Nothing => Outcome::AlreadySettled,
        Change::Settle(_) => Outcome::Settled,
        Change::Running { .. } | Change::NotFound { .. } | Change::Neither { .. } => {
            Outcome::NotTerminal
        }
        Change::Close { .. } => Outcome::Closed,
    }
}
