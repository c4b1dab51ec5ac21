//! Starting, supervising and stopping tasks.
//!
//! Problem: a loop that dies quietly while health stays green is the failure seen most often in
//! queues, and a task nobody waits for is cut off at exit.
//!
//! Design: every task is spawned here. A [`Shutdown`] is one *group* of tasks with two tokens: the
//! soft one asks ("take no more"), the hard one insists. The application owns one group per stage
//! (workers first, listeners last) and drains them in order. A supervised loop that panics or
//! returns unasked is counted, started again with back-off for ever, and its age is readable by
//! health.
//!
//! Races: a task spawned while the group drains is still waited for, because it is tracked before it
//! runs. A loop's restart waits on the soft token too, so stopping is never delayed by back-off.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backoff::Backoff;
use super::clock::Clock;
use super::failpoint::failpoint;

const RESTART: Backoff = Backoff {
    first: Duration::from_millis(200),
    cap: Duration::from_secs(30),
};

/// The least silence of a loop that counts as one.
const LEAST_SILENCE: Duration = Duration::from_mins(2);

/// When a loop counts as silent that rests for `interval` at most between two turns.
pub fn silent_after(interval: Duration) -> Duration {
    interval.saturating_mul(3).max(LEAST_SILENCE)
}

/// One group of tasks that stops together.
#[derive(Debug, Clone)]
pub struct Shutdown {
    clock: Arc<dyn Clock>,
    soft: CancellationToken,
    hard: CancellationToken,
    tasks: TaskTracker,
    loops: Arc<Mutex<Vec<Arc<LoopState>>>>,
}

#[derive(Debug)]
struct LoopState {
    name: &'static str,
    last_turn_ms: AtomicU64,
    restarts: AtomicU64,
}

/// What a supervised loop reports its turns to.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    clock: Arc<dyn Clock>,
    state: Arc<LoopState>,
}

impl Heartbeat {
    /// Says that the loop has just begun a turn (or woke and found nothing to do).
    pub fn beat(&self) {
        failpoint!(&format!("fp-loop-{}", self.state.name));
        self.state
            .last_turn_ms
            .store(now_ms(&*self.clock), Ordering::Relaxed);
    }
}

/// How one supervised loop is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopHealth {
    /// The loop's name.
    pub name: &'static str,
    /// Time since its last turn.
    pub age: Duration,
    /// How often it died and was started again.
    pub restarts: u64,
}

impl Shutdown {
    /// An empty group.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            soft: CancellationToken::new(),
            hard: CancellationToken::new(),
            tasks: TaskTracker::new(),
            loops: Arc::default(),
        }
    }

    /// Runs `task` to its end as part of this group. A panic is logged once.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where tasks are spawned"
    )]
    pub fn spawn<F>(&self, name: &'static str, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = self.tasks.track_future(async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                tracing::error!(task = name, panic = panic_text(&*panic), "task panicked");
            }
        });
        tokio::spawn(task)
    }

    /// Runs the loop that `start` makes until the soft token is cancelled, starting it again with
    /// back-off whenever it panics or returns before that.
    pub fn spawn_loop<S, F>(&self, name: &'static str, mut start: S)
    where
        S: FnMut(Heartbeat) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let state = Arc::new(LoopState {
            name,
            last_turn_ms: AtomicU64::new(now_ms(&*self.clock)),
            restarts: AtomicU64::new(0),
        });
        self.lock().push(Arc::clone(&state));
        let group = self.clone();
        self.spawn(name, async move {
            let mut deaths: u32 = 0;
            loop {
                let heart = Heartbeat {
                    clock: Arc::clone(&group.clock),
                    state: Arc::clone(&state),
                };
                heart.beat();
                let began = group.clock.monotonic();
                let end = AssertUnwindSafe(start(heart)).catch_unwind().await;
                if group.is_stopping() {
                    return;
                }
                state.restarts.fetch_add(1, Ordering::Relaxed);
                // A loop that lived for minutes starts its back-off afresh.
                let lived = group.clock.monotonic().saturating_sub(began);
                deaths = if lived > Duration::from_mins(2) {
                    1
                } else {
                    deaths.saturating_add(1)
                };
                let wait = RESTART.delay(deaths, 0.5);
                match end {
                    Ok(()) => tracing::error!(task = name, ?wait, "loop ended unasked; restarting"),
                    Err(panic) => tracing::error!(
                        task = name,
                        panic = panic_text(&*panic),
                        ?wait,
                        "loop panicked; restarting"
                    ),
                }
                tokio::select! {
                    () = group.clock.sleep(wait) => {}
                    () = group.soft.cancelled() => return,
                }
            }
        });
    }

    /// Asks the group to take no more work.
    pub fn begin(&self) {
        self.soft.cancel();
    }

    /// Whether [`Shutdown::begin`] was called.
    pub fn is_stopping(&self) -> bool {
        self.soft.is_cancelled()
    }

    /// Completes when [`Shutdown::begin`] is called.
    pub async fn stopping(&self) {
        self.soft.cancelled().await;
    }

    /// Completes when the drain deadline has passed and work must be dropped.
    pub async fn forced(&self) {
        self.hard.cancelled().await;
    }

    /// Stops the group: asks, waits up to `patience`, then insists and waits a moment more. True when
    /// every task ended by itself.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.begin();
        self.tasks.close();
        tokio::select! {
            () = self.tasks.wait() => return true,
            () = self.clock.sleep(patience) => {}
        }
        self.hard.cancel();
        tokio::select! {
            () = self.tasks.wait() => {}
            () = self.clock.sleep(Duration::from_millis(500)) => {
                tracing::warn!(tasks = self.tasks.len(), "tasks did not stop in time");
            }
        }
        false
    }

    /// How every supervised loop is doing.
    pub fn loops(&self) -> Vec<LoopHealth> {
        let now = now_ms(&*self.clock);
        self.lock()
            .iter()
            .map(|state| LoopHealth {
                name: state.name,
                age: Duration::from_millis(
                    now.saturating_sub(state.last_turn_ms.load(Ordering::Relaxed)),
                ),
                restarts: state.restarts.load(Ordering::Relaxed),
            })
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<LoopState>>> {
        self.loops
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn now_ms(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX)
}

/// The message of a caught panic, as far as there is one.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use super::super::clock::{ManualClock, SystemClock, Timestamp};
    use super::*;

    #[tokio::test]
    async fn a_loop_that_panics_is_started_again_and_counted() {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(0)));
        let group = Shutdown::new(clock.clone());
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let stop = group.clone();
        group.spawn_loop("sometimes", move |heart| {
            let (tell, stop) = (tell.clone(), stop.clone());
            async move {
                heart.beat();
                tell.send(()).unwrap();
                assert!(stop.loops()[0].restarts >= 2, "as planned");
                stop.stopping().await;
            }
        });
        told.recv().await.unwrap();
        for _ in 0..2 {
            // The restart sleeps on the manual clock: move it until the next start is told.
            loop {
                clock.advance(Duration::from_secs(1));
                tokio::task::yield_now().await;
                if told.try_recv().is_ok() {
                    break;
                }
            }
        }
        assert_eq!(group.loops()[0].restarts, 2);
        assert!(group.drain(Duration::from_secs(5)).await);
    }

    #[tokio::test]
    async fn drain_insists_after_its_patience() {
        let group = Shutdown::new(Arc::new(SystemClock::new()));
        let hard = group.clone();
        group.spawn("stubborn", async move { hard.forced().await });
        assert!(!group.drain(Duration::from_millis(10)).await);
    }
}
