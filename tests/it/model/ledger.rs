//! The model.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::collections::BTreeSet;

use hookledger::domain::event::Verdict;
use hookledger::domain::operation::OperationState;

use super::JOBS;

/// One thing that happens. A job is a number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Register(usize),
    /// A verified delivery with this id says that the job succeeded. It may be a lie.
    Tell(usize, usize),
    /// The provider ends it, well or not.
    End(usize, bool),
    /// The provider denies that it exists, or knows it again.
    Forget(usize, bool),
    /// An operator replays the last delivery about it.
    Replay(usize),
    /// Minutes.
    Pass(u64),
    Work,
    Send,
    Reconcile,
    CrashIdle,
    CrashInFetch,
    CrashBeforeSend,
    CrashInSend,
    ApiDown(bool),
    SinkDown(bool),
    /// All faults off but forgetting; a day passes.
    Drain,
}

impl Step {
    pub(super) fn is_crash(self) -> bool {
        use Step::{CrashBeforeSend, CrashIdle, CrashInFetch, CrashInSend};
        matches!(
            self,
            CrashIdle | CrashInFetch | CrashBeforeSend | CrashInSend
        )
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Job {
    /// What the provider holds: nothing while it runs.
    pub(super) end: Option<OperationState>,
    pub(super) forgotten: bool,
    pub(super) registered: bool,
    pub(super) told: BTreeSet<usize>,
    /// Whether a look could have found its end, at some time.
    pub(super) could_settle: bool,
    /// What the ledger must say since the last drain.
    pub(super) settled: Option<OperationState>,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) jobs: [Job; JOBS],
    pub(super) crashes_in_send: usize,
}

impl Model {
    pub(super) fn apply(&mut self, step: Step) {
        match step {
            Step::Register(job) => self.jobs[job].registered = true,
            Step::Tell(job, id) => drop(self.jobs[job].told.insert(id)),
            Step::End(job, well) => {
                let state = if well {
                    OperationState::Succeeded
                } else {
                    OperationState::Failed
                };
                self.jobs[job].end.get_or_insert(state);
            }
            Step::Forget(job, on) => self.jobs[job].forgotten = on,
            Step::CrashInSend => self.crashes_in_send += 1,
            Step::Drain => {
                for job in self
                    .jobs
                    .iter_mut()
                    .filter(|j| j.is_known() && !j.forgotten)
                {
                    job.settled = job.end;
                }
            }
            _ => {}
        }
        for job in &mut self.jobs {
            job.could_settle |= job.is_known() && job.end.is_some() && !job.forgotten;
        }
    }

    /// What a delivery is answered.
    pub(super) fn verdict(&self, job: usize, id: usize) -> Verdict {
        if self.jobs[job].told.contains(&id) {
            Verdict::Duplicate
        } else {
            Verdict::Accepted
        }
    }
}

impl Job {
    /// Whether anybody ever named it to us.
    pub(super) fn is_known(&self) -> bool {
        self.registered || !self.told.is_empty()
    }
}
