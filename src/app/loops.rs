//! The supervised loops: their names, their paces, their start.

use std::sync::Arc;
use std::time::Duration;

use super::Parts;
use crate::base::shutdown::{Heartbeat, Shutdown};
use crate::config::Settings;
use crate::reconcile::Reconciler;
use crate::reconcile::subscription::Subscription;
use crate::reconcile::upkeep::Upkeep;
use crate::reconcile::watch::Watch;
use crate::store::Store;
use crate::work::{Sender, Worker};

/// The names of the supervised loops.
pub const LOOPS: [&str; 6] = [
    "worker",
    "sender",
    "reconcile",
    "upkeep",
    "watch",
    "subscription",
];

/// Starts all of them in `group`.
pub(super) fn start_loops(parts: &Parts, group: &Shutdown) {
    let [worker, sender, reconcile, upkeep, watch, subscription] = LOOPS;
    start(group, worker, &parts.worker, Worker::run_loop);
    start(group, sender, &parts.sender, Sender::run_loop);
    start(group, reconcile, &parts.reconciler, Reconciler::run_loop);
    start(group, upkeep, &parts.upkeep, Upkeep::run_loop);
    start(group, watch, &parts.watch, Watch::run_loop);
    if let Some(part) = &parts.subscription {
        start(group, subscription, part, Subscription::run_loop);
    }
}

/// Starts one supervised loop.
fn start<T, F>(
    group: &Shutdown,
    name: &'static str,
    part: &Arc<T>,
    run: fn(Arc<T>, Shutdown, Heartbeat) -> F,
) where
    T: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (part, stop) = (Arc::clone(part), group.clone());
    group.spawn_loop(name, move |heart| {
        run(Arc::clone(&part), stop.clone(), heart)
    });
}

/// Lets a file that was opened unread be checked while it is used.
pub(super) fn check_meanwhile(store: &Store, group: &Shutdown) {
    let (store, stop) = (store.clone(), group.clone());
    group.spawn("file check", async move {
        store.check_the_rest(&stop).await;
    });
}

/// How long each loop may rest between two turns.
pub(super) fn intervals(settings: &Settings) -> Vec<(&'static str, Duration)> {
    let poll = crate::work::SAFETY_POLL;
    let reconcile = settings.reconcile.interval;
    let [worker, sender, reconciler, upkeep, watch, subscription] = LOOPS;
    let mut all = vec![
        (worker, poll),
        (sender, poll),
        (reconciler, reconcile),
        (upkeep, crate::reconcile::upkeep::REST),
        (watch, crate::reconcile::watch::INTERVAL),
    ];
    if settings.subscription.enabled {
        all.push((subscription, settings.subscription.poll_interval));
    }
    all
}
