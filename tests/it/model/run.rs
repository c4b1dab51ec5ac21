//! The same steps on the real thing, and the comparison.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use hookledger::domain::fault::Fault;
use hookledger::domain::ledger::Operation;
use hookledger::domain::operation::OperationState;
use hookledger::effects::Message;
use uuid::Uuid;

use super::JOBS;
use super::ledger::{Model, Step};
use crate::support::world::{Says, World, failed, running, succeeded};

const MINUTE: Duration = Duration::from_mins(1);
/// A crash charges the item it hits; ten would make it a dead letter, as they should.
const CRASHES: usize = 6;
/// Three days at most, less than an effect's or an unresolved name's life.
const DRAINS: usize = 2;
/// How time passes in a drain: first looks soon, then the cap of every back-off, then a daily look.
const DRAIN_MINUTES: [u64; 16] = [
    1, 1, 5, 5, 30, 30, 60, 60, 120, 120, 240, 240, 240, 240, 90, 90,
];

struct Run {
    world: World,
    model: Model,
    events: [Option<Uuid>; JOBS],
    /// As first seen settled.
    seen: [Option<Operation>; JOBS],
    api_down: bool,
    crashes: usize,
    drains: usize,
}

/// Runs a list to its end and drains once more. Panics where the model is contradicted.
pub(super) fn run(steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run {
            world: World::new().await,
            model: Model::default(),
            events: [None; JOBS],
            seen: Default::default(),
            api_down: false,
            crashes: 0,
            drains: 0,
        };
        for step in steps {
            run = Box::pin(run.take(*step)).await;
        }
        run.drains = 0;
        let _ = Box::pin(run.take(Step::Drain)).await;
    });
}

fn name(job: usize) -> String {
    format!("batches/model-{job}")
}

impl Run {
    async fn take(mut self, step: Step) -> Self {
        let is_crash = step.is_crash();
        self.crashes += usize::from(is_crash);
        self.drains += usize::from(matches!(step, Step::Drain));
        if (is_crash && self.crashes > CRASHES) || self.drains > DRAINS {
            return self;
        }
        match step {
            Step::Register(job) => drop(self.world.register(&name(job), "nightly").await),
            Step::Tell(job, id) => {
                let told = self.world.tell(&format!("{job}-{id}"), &name(job)).await;
                assert_eq!(told.verdict, self.model.verdict(job, id));
                if !self.model.jobs[job].told.contains(&id) {
                    self.events[job] = Some(told.event_id);
                }
            }
            Step::Replay(job) => {
                if let Some(event) = self.events[job] {
                    self.world.replay(event).await;
                }
            }
            Step::Pass(minutes) => self.world.advance(u32::try_from(minutes).unwrap() * MINUTE),
            Step::Work => drop(self.world.work().await),
            Step::Send => drop(self.world.send().await),
            Step::Reconcile => {
                self.world.reconcile().await;
            }
            Step::CrashIdle => self.world = self.world.restart().await,
            Step::CrashInFetch | Step::CrashBeforeSend | Step::CrashInSend => {
                self = Box::pin(self.crash(step)).await;
            }
            Step::ApiDown(down) => self.api_down = down,
            Step::SinkDown(down) => self.world.notify.set_down(down),
            Step::End(..) | Step::Forget(..) => {}
            Step::Drain => self.api_down = false,
        }
        self.model.apply(step);
        self.script();
        if matches!(step, Step::Drain) {
            self.drain().await;
            self.check_all().await;
        }
        self.check_truth().await;
        self
    }

    /// Dies while the API, or the receiver of an effect, has the request and has not answered.
    async fn crash(mut self, step: Step) -> Self {
        let (api, sink) = (self.world.api.clone(), self.world.notify.clone());
        let held = match step {
            Step::CrashInFetch => &api.held,
            Step::CrashBeforeSend => &sink.held_before,
            _ => &sink.held,
        };
        held.set(true);
        if matches!(step, Step::CrashInFetch) {
            tokio::select! { _ = self.world.work() => {}, () = held.reached() => {} }
        } else {
            tokio::select! { _ = self.world.send() => {}, () = held.reached() => {} }
        }
        held.set(false);
        self.world = self.world.restart().await;
        self
    }

    /// Lets the API say what the model's provider holds.
    fn script(&self) {
        for (n, job) in self.model.jobs.iter().enumerate() {
            let name = name(n);
            let says = match job.end {
                _ if self.api_down => Says::Fault(Fault::Unavailable {
                    retry_after: None,
                    what: "down".to_owned(),
                }),
                _ if job.forgotten => Says::Fault(Fault::NotFound),
                None => running(&name),
                Some(OperationState::Succeeded) => succeeded(&name),
                Some(_) => failed(&name),
            };
            self.world.api.says(&name, says);
        }
    }

    async fn drain(&self) {
        self.world.notify.set_down(false);
        for minutes in DRAIN_MINUTES {
            self.world.advance(u32::try_from(minutes).unwrap() * MINUTE);
            self.world.reconcile().await;
            while !self.world.work().await.is_empty() {}
            while !self.world.send().await.is_empty() {}
        }
    }

    /// At any time: nothing is said that the provider does not say, and nothing said is taken back.
    async fn check_truth(&mut self) {
        for n in 0..JOBS {
            let job = &self.model.jobs[n];
            let record = self.world.operation(&name(n)).await;
            let settled = record.filter(|o| o.state.is_settled());
            let sent = self.sent(n);
            assert!(
                settled.is_some() || sent.is_empty(),
                "job {n}: an effect of nothing"
            );
            let keys: BTreeSet<_> = sent.iter().map(|m| (&m.key, &m.payload)).collect();
            assert!(
                keys.len() <= 1,
                "job {n}: two keys or two payloads: {keys:?}"
            );
            let Some(now) = settled else {
                assert!(self.seen[n].is_none(), "job {n} settled and is no longer");
                continue;
            };
            assert_eq!(
                Some(now.state),
                job.end,
                "job {n}: not what the provider says"
            );
            let first = self.seen[n].get_or_insert_with(|| now.clone());
            let lasting = |o: &Operation| {
                (
                    o.id,
                    o.state,
                    o.settled_at,
                    o.settled_by,
                    o.body_hash.clone(),
                )
            };
            assert_eq!(lasting(first), lasting(&now), "job {n} settled again");
        }
    }

    /// After a drain: all that the provider says is said, and told to the receiver of effects.
    async fn check_all(&self) {
        let mut repeated = 0;
        for (n, job) in self.model.jobs.iter().enumerate() {
            let record = self.world.operation(&name(n)).await;
            let sent = self.sent(n);
            let Some(record) = record else {
                assert!(
                    !job.registered && job.settled.is_none(),
                    "job {n} is not in the ledger"
                );
                continue;
            };
            assert!(job.is_known(), "job {n}: nobody ever named it");
            if let Some(state) = job.settled {
                assert_eq!(record.state, state, "job {n}");
                assert!(record.side_effect_done, "job {n}: its effect is not done");
                assert!(!sent.is_empty(), "job {n}: its effect never left");
                repeated += sent.len() - 1;
            } else {
                assert!(
                    !record.state.is_settled() || job.could_settle,
                    "job {n}: {}",
                    record.state
                );
            }
        }
        assert!(
            repeated <= self.model.crashes_in_send * JOBS,
            "{repeated} repeated effects, {} crashes",
            self.model.crashes_in_send
        );
    }

    fn sent(&self, job: usize) -> Vec<Message> {
        let name = name(job);
        let about = |m: &Message| m.operation.as_ref().is_some_and(|o| o.as_str() == name);
        self.world.notify.sent().into_iter().filter(about).collect()
    }
}
