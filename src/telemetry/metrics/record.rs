//! How the floors above count: one function a fact.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

use super::table::{self as t, Label, Metric};
use crate::base::clock::Timestamp;

fn pair(label: &Label, word: &str) -> (&'static str, &'static str) {
    (label.name, label.bounded(word))
}

fn named(label: &Label, name: &str) -> (&'static str, String) {
    (label.name, name.to_owned())
}

fn count(metric: &Metric) {
    counter!(metric.name).increment(1);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a float; sizes and counts stay far below 2^53"
)]
fn set(metric: &Metric, value: u64) {
    gauge!(metric.name).set(value as f64);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a float; sizes and counts stay far below 2^53"
)]
fn set_labelled(metric: &Metric, label: &Label, word: &str, value: u64) {
    gauge!(metric.name, &[pair(label, word)]).set(value as f64);
}

/// A delivery was committed. `source` is a configured name.
pub fn delivery(source: &str, verdict: &str) {
    let verdict = t::VERDICT.bounded(verdict);
    let source = source.to_owned();
    counter!(t::DELIVERIES.name, t::SOURCE.name => source, t::VERDICT.name => verdict).increment(1);
}

/// A delivery was refused. `source` is a configured name, or `None` when the path names none.
pub fn refusal(source: Option<&str>, reason: &str) {
    let reason = t::REFUSAL.bounded(reason);
    let source = source.unwrap_or("unknown").to_owned();
    match reason {
        "too_old" => counter!(t::SIGNED_TOO_OLD.name, &[named(&t::SOURCE, &source)]).increment(1),
        "too_early" => {
            counter!(t::SIGNED_TOO_EARLY.name, &[named(&t::SOURCE, &source)]).increment(1);
        }
        _ => {}
    }
    counter!(t::REFUSALS.name, t::SOURCE.name => source, t::REFUSAL.name => reason).increment(1);
}

/// A token was accepted whatever its audience. `source` is a configured name.
pub fn unpinned_audience(source: &str) {
    counter!(t::UNPINNED_AUDIENCE.name, &[named(&t::SOURCE, source)]).increment(1);
}

/// A key set was asked for.
pub fn jwks_fetch(outcome: &str) {
    counter!(t::JWKS_FETCHES.name, &[pair(&t::KEY_FETCH, outcome)]).increment(1);
}

/// A delivery was answered so long after its body was complete.
pub fn received_in(took: Duration) {
    histogram!(t::RECEIVE_SECONDS.name).record(took);
}

/// So many connections to the public listener are open.
pub fn connections(open: u64) {
    set(&t::CONNECTIONS, open);
}

/// So many deliveries are being handled.
pub fn in_flight(now: u64) {
    set(&t::IN_FLIGHT, now);
}

/// A commit with `writes` writes took so long.
pub fn commit(writes: u32, took: Duration) {
    count(&t::COMMITS);
    histogram!(t::COMMIT_GROUP_SIZE.name).record(f64::from(writes));
    histogram!(t::COMMIT_SECONDS.name).record(took);
}

/// A write could not be committed.
pub fn write_failure() {
    count(&t::WRITE_FAILURES);
}

/// Bytes of writes that wait for their commit.
pub fn write_queue(bytes: u64) {
    set(&t::WRITE_QUEUE_BYTES, bytes);
}

/// So many free bytes beside the database are few enough to alert.
pub fn disk_low(bytes: u64) {
    set(&t::DISK_LOW_BYTES, bytes);
}

/// Size of the database, of its log, and the free space beside them, bytes.
pub fn store_size(db: u64, wal: u64, disk_free: u64) {
    set_labelled(&t::STORE_BYTES, &t::FILE, "db", db);
    set_labelled(&t::STORE_BYTES, &t::FILE, "wal", wal);
    set(&t::DISK_FREE_BYTES, disk_free);
}

/// The queue: open items, the wait of the oldest due one, and dead letters.
pub fn queue(depth: u64, oldest_due: Duration, dead: u64) {
    set(&t::QUEUE_DEPTH, depth);
    gauge!(t::OLDEST_DUE_SECONDS.name).set(oldest_due.as_secs_f64());
    set(&t::DEAD_LETTERS, dead);
}

/// A work item was claimed so long after it was due.
pub fn claimed(reason: &str, lag: Duration) {
    histogram!(t::QUEUE_LAG_SECONDS.name, &[pair(&t::REASON, reason)]).record(lag);
}

/// A work item was given up.
pub fn dead_letter() {
    count(&t::DEAD_LETTERED);
}

/// A work item closed.
pub fn work_closed(reason: &str, outcome: &str) {
    let (reason, outcome) = (t::REASON.bounded(reason), t::WORK_OUTCOME.bounded(outcome));
    counter!(t::WORK_CLOSED.name, t::REASON.name => reason, t::WORK_OUTCOME.name => outcome)
        .increment(1);
}

/// A request to the operations API ended; `outcome` is `terminal`, `running` or a fault's label.
pub fn fetch(outcome: &str, took: Duration) {
    counter!(t::FETCHES.name, &[pair(&t::FETCH, outcome)]).increment(1);
    histogram!(t::FETCH_SECONDS.name).record(took);
}

/// Whether all fetching is paused.
pub fn fetching_paused(paused: bool) {
    set(&t::FETCHING_PAUSED, u64::from(paused));
}

/// An operation settled so long after the provider says that it ended.
pub fn settled_after_end(settled_by: &str, lag: Duration) {
    histogram!(t::END_LAG_SECONDS.name, &[pair(&t::CAUSE, settled_by)]).record(lag);
}

/// An operation settled or was closed; `lag` since its registration when it had one.
pub fn settled(settled_by: &str, state: &str, lag: Option<Duration>) {
    let (cause, state) = (t::CAUSE.bounded(settled_by), t::ENDING.bounded(state));
    counter!(t::SETTLED.name, t::CAUSE.name => cause, t::ENDING.name => state).increment(1);
    if let Some(lag) = lag {
        histogram!(t::SETTLE_LAG_SECONDS.name).record(lag);
    }
}

/// So many operations stand at an unsettled `state`.
pub fn operations(state: &str, now: u64) {
    set_labelled(&t::OPERATIONS, &t::OPEN_STATE, state, now);
}

/// So many operations are overdue.
pub fn overdue(now: u64) {
    set(&t::OVERDUE, now);
}

/// An operation came in without being registered.
pub fn adopted() {
    count(&t::ADOPTED);
}

/// A delivery's claim was refuted by the API.
pub fn refuted() {
    count(&t::REFUTED);
}

/// An operation settled and its webhook had not come in time.
pub fn webhook_rescued() {
    count(&t::WEBHOOK_RESCUED);
}

/// The webhook of a rescued operation came after all.
pub fn webhook_late() {
    count(&t::WEBHOOK_LATE);
}

/// An operation ended in a way that has no event.
pub fn no_event_expected() {
    count(&t::NO_EVENT_EXPECTED);
}

/// So many operations were pruned.
pub fn pruned(operations: u64) {
    counter!(t::PRUNED.name).increment(operations);
}

/// An effect reached `done`, `ambiguous`, `held` or `dead`. `effect` is a configured name.
pub fn effect_ended(effect: &str, state: &str) {
    let state = t::EFFECT_END.bounded(state);
    let effect = effect.to_owned();
    counter!(t::EFFECTS_ENDED.name, t::EFFECT.name => effect, t::EFFECT_END.name => state)
        .increment(1);
}

/// An attempt to deliver an effect ended: `done`, `retry`, `ambiguous` or `refused`.
pub fn effect_attempt(effect: &str, outcome: &str, took: Duration) {
    let outcome = t::ATTEMPT.bounded(outcome);
    histogram!(t::EFFECT_SECONDS.name, &[named(&t::EFFECT, effect)]).record(took);
    let effect = effect.to_owned();
    counter!(t::EFFECT_ATTEMPTS.name, t::EFFECT.name => effect, t::ATTEMPT.name => outcome)
        .increment(1);
}

/// So many rows of the outbox stand at `state`.
pub fn effects(state: &str, now: u64) {
    set_labelled(&t::EFFECTS_BY_STATE, &t::EFFECT_STATE, state, now);
}

/// The wait of the oldest due effect.
pub fn oldest_effect(wait: Duration) {
    gauge!(t::OLDEST_EFFECT_SECONDS.name).set(wait.as_secs_f64());
}

/// A background loop took a turn.
pub fn loop_turn(name: &'static str) {
    counter!(t::LOOP_TURNS.name, t::LOOP.name => name).increment(1);
}

/// How often a background loop has been started again since the process began.
pub fn loop_restarts(name: &'static str, so_far: u64) {
    counter!(t::LOOP_RESTARTS.name, t::LOOP.name => name).absolute(so_far);
}

/// How long ago a background loop took its last turn, and from when on that counts as silence.
pub fn loop_age(name: &'static str, age: Duration, bound: Duration) {
    let name = (t::LOOP.name, name);
    gauge!(t::LOOP_AGE_SECONDS.name, &[name]).set(age.as_secs_f64());
    gauge!(t::LOOP_BOUND_SECONDS.name, &[name]).set(bound.as_secs_f64());
}

/// The process started then, as this version of the program.
pub fn started(at: Timestamp) {
    gauge!(
        t::BUILD_INFO.name,
        &[pair(&t::VERSION, env!("CARGO_PKG_VERSION"))]
    )
    .set(1.0);
    let since_1970 = at.since(Timestamp::from_millis(0));
    gauge!(t::START_TIME_SECONDS.name).set(since_1970.as_secs_f64());
}

/// An alert `fired` or `recovered`.
pub fn alert(turn: &str) {
    counter!(t::ALERTS.name, &[pair(&t::ALERT_TURN, turn)]).increment(1);
}

/// So many alerts are open.
pub fn alerts_open(now: u64) {
    set(&t::ALERTS_OPEN, now);
}

/// Whether the provider's record of where deliveries go is enabled.
pub fn subscription_enabled(enabled: bool) {
    set(&t::SUBSCRIPTION_ENABLED, u64::from(enabled));
}

/// A look at the provider's record found it `matching`, `drift`, `disabled` or `missing`, or `failed`.
pub fn subscription_look(found: &str) {
    counter!(t::SUBSCRIPTION_LOOKS.name, &[pair(&t::LOOK, found)]).increment(1);
}

/// A disabled record was enabled again.
pub fn subscription_reenabled() {
    count(&t::SUBSCRIPTION_REENABLED);
}

/// A canary was `sent`, `arrived` or was `missed`, or could not be sent (`failed`).
pub fn canary(outcome: &str) {
    counter!(t::CANARY.name, &[pair(&t::CANARY_END, outcome)]).increment(1);
}

/// A canary's delivery was seen so long after its ping.
pub fn canary_took(took: Duration) {
    histogram!(t::CANARY_SECONDS.name).record(took);
}

/// So many spans were `exported`, found the `queue_full`, were `undelivered`, or `refused`.
pub fn trace_spans(outcome: &str, spans: u64) {
    counter!(t::TRACE_SPANS.name, &[pair(&t::SPAN_END, outcome)]).increment(spans);
}
