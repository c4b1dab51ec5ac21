//! Lists of things that may happen, in any order, against a model that says what must come of them.
//!
//! The model knows what the provider holds and what hookledger was told, nothing of queues, leases or
//! retries. After every step the ledger may not say anything that the provider does not; after a
//! drain (faults off, a day passes) it must say all of it, and the receiver of effects must know.
//!
//! `MODEL_CASES=N` asks for more than the usual number of lists.

mod cases;
mod ledger;
mod run;

use proptest::prelude::*;
use proptest::test_runner::Config;

pub(crate) use ledger::Step;

/// Operations in a list, and ids that one's deliveries may carry.
const JOBS: usize = 4;
const IDS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let job = 0..JOBS;
    prop_oneof![
        4 => job.clone().prop_map(Step::Register),
        6 => (job.clone(), 0..IDS).prop_map(|(job, id)| Step::Tell(job, id)),
        4 => (job.clone(), any::<bool>()).prop_map(|(job, well)| Step::End(job, well)),
        2 => (job.clone(), any::<bool>()).prop_map(|(job, on)| Step::Forget(job, on)),
        1 => job.prop_map(Step::Replay),
        4 => (1..60_u64).prop_map(Step::Pass),
        6 => Just(Step::Work),
        6 => Just(Step::Send),
        4 => Just(Step::Reconcile),
        2 => Just(Step::CrashIdle),
        2 => Just(Step::CrashInFetch),
        1 => Just(Step::CrashBeforeSend),
        2 => Just(Step::CrashInSend),
        1 => any::<bool>().prop_map(Step::ApiDown),
        1 => any::<bool>().prop_map(Step::SinkDown),
        1 => Just(Step::Drain),
    ]
}

#[test]
fn whatever_happens_the_ledger_says_what_the_provider_says() {
    let cases = std::env::var("MODEL_CASES").map_or(16, |n| n.parse().unwrap());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..40))| run::run(&steps));
}
