//! Senders that know what they were told, and a hand that kills the program under them.
//!
//! An answer may be lost with the process that gave it, so there are three sets and not two: what was
//! acknowledged must exist, what was refused must not, and what nobody heard of may be either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::outside::{self, Told};
use super::sink::Sink;
use super::stand::{Stand, silent, succeeded};

/// What the senders know. An answer nobody heard leaves its delivery in `unheard`.
#[derive(Debug, Default)]
struct Known {
    told: Told,
    unheard: Vec<(String, String)>,
}

/// Senders at work.
#[derive(Debug)]
pub(crate) struct Load {
    known: Mutex<Known>,
    done: AtomicBool,
    /// Between two requests of one sender.
    pace: Duration,
}

impl Load {
    pub(crate) fn new(pace: Duration) -> Self {
        Self {
            known: Mutex::default(),
            done: AtomicBool::new(false),
            pace,
        }
    }

    /// What is known by now. Nothing need have settled yet.
    pub(crate) fn told(&self) -> Told {
        let known = self.known.lock().unwrap();
        Told {
            stored: known.told.stored.clone(),
            refused: known.told.refused.clone(),
            settled: BTreeSet::new(),
        }
    }

    pub(crate) fn stop(&self) {
        self.done.store(true, Ordering::Relaxed);
    }

    /// Sends from as many senders as there are `seeds`, until told to stop.
    pub(crate) async fn run(&self, stand: &Stand, seeds: impl IntoIterator<Item = u64>) {
        let senders = seeds.into_iter().map(|seed| self.send(stand, seed));
        futures_util::future::join_all(senders).await;
        // It may be asked to go on later.
        self.done.store(false, Ordering::Relaxed);
    }

    /// Endings, copies of earlier ones, registrations, and forgeries.
    async fn send(&self, stand: &Stand, seed: u64) {
        let clock = SystemClock::new();
        let mut random = StdRng::seed_from_u64(seed);
        let mut earlier: Vec<(String, String)> = Vec::new();
        for n in 0.. {
            if self.done.load(Ordering::Relaxed) {
                return;
            }
            clock.sleep(self.pace).await;
            let id = format!("sender-{seed}-{n}");
            match random.random_range(0..20) {
                0..2 => {
                    let mut forged = stand.signed(&id, "{}").build().unwrap();
                    *forged.body_mut() = Some("{ }".into());
                    if let Ok(answer) = stand.http.execute(forged).await {
                        assert_eq!(answer.status(), 401);
                    }
                    self.known.lock().unwrap().told.refused.insert(id);
                }
                2..5 => {
                    let name = stand.gemini.start(silent(false)).unwrap();
                    if let Some(201) = stand.try_register(&name, "nightly").await {
                        self.known.lock().unwrap().told.settled.insert(name);
                    }
                }
                kind => {
                    let copied = earlier.get(random.random_range(0..=earlier.len())).cloned();
                    let (id, name) = match copied.filter(|_| kind < 8) {
                        Some(copied) => copied,
                        None => (id, stand.gemini.start(silent(false)).unwrap()),
                    };
                    let answer = stand.signed(&id, succeeded(&name)).send().await;
                    let mut known = self.known.lock().unwrap();
                    match answer.map(|a| a.status().as_u16()) {
                        Ok(200) => {
                            known.told.stored.insert(id.clone());
                            known.told.settled.insert(name.clone());
                        }
                        Ok(503) | Err(_) => known.unheard.push((id.clone(), name.clone())),
                        Ok(other) => panic!("a good delivery was answered {other}"),
                    }
                    drop(known);
                    earlier.push((id, name));
                }
            }
        }
    }

    /// Sends again what nobody heard an answer to, as a sender would, and is not turned away. Answers
    /// all that must be true once everything is drained.
    pub(crate) async fn settle_up(&self, stand: &Stand) -> Told {
        let unheard = std::mem::take(&mut self.known.lock().unwrap().unheard);
        for (id, name) in unheard {
            let (status, word) = stand.deliver(&id, succeeded(&name)).await;
            assert_eq!(status, 200, "{word}");
            let mut known = self.known.lock().unwrap();
            known.told.stored.insert(id);
            known.told.settled.insert(name);
        }
        let known = self.known.lock().unwrap();
        Told {
            stored: known.told.stored.clone(),
            refused: known.told.refused.clone(),
            settled: known.told.settled.clone(),
        }
    }
}

/// The only excuse for a receiver to get an effect twice: it was between its intent and its receipt
/// when the process died.
#[derive(Debug, Default)]
pub(crate) struct CutOff(BTreeMap<String, usize>);

impl CutOff {
    /// Remembers what was being sent when the process died. To be asked before the next one starts.
    pub(crate) async fn note(&mut self, stand: &Stand) {
        let sending = "SELECT idempotency_key FROM effects WHERE state = 'sending'";
        for key in outside::texts(&stand.db(), sending).await {
            *self.0.entry(key).or_default() += 1;
        }
    }

    /// Nothing arrived more often than it was cut off or refused. Answers how many came twice.
    pub(crate) fn check(&self, sink: &Sink) -> usize {
        let refused = sink.refused();
        let mut repeats = 0;
        for (name, got) in sink.by_operation() {
            let key = &got.first().unwrap().key;
            let excused = refused.get(key).unwrap_or(&0) + self.0.get(key).unwrap_or(&0);
            assert!(
                got.len() <= 1 + excused,
                "the effect of {name} came {} times and was cut off or refused {excused} times",
                got.len()
            );
            repeats += got.len() - 1 - refused.get(key).unwrap_or(&0).min(&(got.len() - 1));
        }
        repeats
    }
}

/// How often to kill, and where the instants come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kills {
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// The whole file is judged in each so many rounds; the acknowledged deliveries in every one.
    pub(crate) judge_each: u64,
}

/// Starts and kills the program at seeded instants, and reads the file each time it is dead. Answers
/// the longest time from start to ready.
pub(crate) async fn kill_often(
    stand: &Stand,
    load: &Load,
    kills: Kills,
    cut_off: &mut CutOff,
) -> Duration {
    let clock = SystemClock::new();
    let mut random = StdRng::seed_from_u64(kills.seed);
    let mut slowest = Duration::ZERO;
    for round in 0..kills.rounds {
        let since = clock.monotonic();
        let mut service = stand.spawn("service.log");
        // Every fourth one dies while it starts.
        if round % 4 != 3 {
            service.ready(stand.public).await;
            slowest = slowest.max(clock.monotonic().saturating_sub(since));
        }
        let instant = Duration::from_millis(random.random_range(0..500));
        clock.sleep(instant).await;
        assert!(
            service.is_running(),
            "round {round}: it ended by itself:\n{}",
            service.logged()
        );
        service.kill().await;
        cut_off.note(stand).await;
        outside::check_stored(&stand.db(), &load.told()).await;
        if round % kills.judge_each == 0 {
            outside::check_file(&stand.db()).await;
        }
    }
    load.stop();
    slowest
}
