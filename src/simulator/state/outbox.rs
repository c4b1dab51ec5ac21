//! Webhooks to send: what is due, what went wrong on purpose, what became of each.
//!
//! Pure: the sender takes what is due, posts it, and says how it went. A delivery that is honest is
//! tried again until a 2xx, like Google's; one that was spoiled on purpose is sent once, so that a
//! refused forgery does not knock for minutes.
//!
//! Order: a delivery may wait for one before it (`twice`: the copy follows the original) or for any
//! delivery of another job (`reorder`). Waiting is bounded, so nothing waits for ever.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde::Serialize;

use super::plan::{Mode, WebhookPlan};
use crate::base::backoff::Backoff;
use crate::base::clock::Timestamp;

/// How many settled deliveries are remembered.
const REMEMBERED: usize = 10_000;

/// By whom a delivery is wanted, which decides how it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum To {
    /// The simulator's configured URL.
    Configured,
    /// The registered webhook of this id.
    Registered(String),
    /// A URL the job itself brought.
    Own,
}

/// What is done to a delivery on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Twist {
    Honest,
    Tampered,
    Stale,
    Unsigned,
    /// Signed like an honest one, but sent once whatever the answer.
    Once,
    /// Sent again exactly as it was.
    Replayed(Sent),
}

/// What differs from attempt to attempt, as it went out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Unix seconds.
    pub(crate) timestamp: i64,
    pub(crate) signature: Option<String>,
    pub(crate) body: Bytes,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Not sent yet, or to be tried again.
    Waiting,
    /// On its way.
    Sending,
    /// Answered with a 2xx.
    Delivered,
    /// Answered otherwise too often, or spoiled on purpose and refused.
    GaveUp,
    /// Never sent, as planned.
    Dropped,
}

/// One webhook, before and after it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) seq: u64,
    pub(crate) webhook_id: String,
    pub(crate) event_type: String,
    /// The job it speaks of; empty for a body sent raw.
    pub(crate) name: String,
    pub(crate) to: To,
    pub(crate) url: String,
    pub(crate) body: Bytes,
    pub(crate) twist: Twist,
    pub(crate) due: Timestamp,
    /// Waits until this one is settled.
    after: Option<u64>,
    /// Waits until a delivery of another job has arrived, but not longer than this.
    overtaken_by: Option<Timestamp>,
    pub(crate) state: DeliveryState,
    pub(crate) attempts: u32,
    /// The last answer; `None` when there was none.
    pub(crate) status: Option<u16>,
    pub(crate) sent_at: Option<Timestamp>,
    pub(crate) sent: Option<Sent>,
}

/// What to send, before it is put into the outbox.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) webhook_id: String,
    pub(crate) event_type: String,
    pub(crate) name: String,
    pub(crate) to: To,
    pub(crate) url: String,
    pub(crate) body: Bytes,
}

/// How an attempt went.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) status: Option<u16>,
    pub(crate) at: Timestamp,
    pub(crate) sent: Sent,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    seq: u64,
    open: BTreeMap<u64, Delivery>,
    settled: VecDeque<Delivery>,
}

impl Outbox {
    /// Puts a letter into the outbox under a plan.
    pub(crate) fn post(&mut self, letter: Letter, plan: WebhookPlan, at: Timestamp) {
        match plan.deliver {
            Mode::Drop => {
                let mut dropped = self.make(letter, Twist::Honest, at);
                dropped.state = DeliveryState::Dropped;
                self.remember(dropped);
            }
            Mode::Once | Mode::Forge => {
                self.send(letter, Twist::Honest, at);
            }
            Mode::Delay => {
                self.send(letter, Twist::Honest, at.after(plan.hold()));
            }
            Mode::Tamper => {
                self.send(letter, Twist::Tampered, at);
            }
            Mode::Stale => {
                self.send(letter, Twist::Stale, at);
            }
            Mode::Twice => {
                let first = self.send(letter.clone(), Twist::Honest, at);
                let mut copy = self.make(letter, Twist::Honest, at);
                copy.after = Some(first);
                self.open.insert(copy.seq, copy);
            }
            Mode::Reorder => {
                let mut held = self.make(letter, Twist::Honest, at);
                held.overtaken_by = Some(at.after(plan.hold()));
                self.open.insert(held.seq, held);
            }
        }
    }

    /// Puts a letter into the outbox as it is and returns its number.
    pub(crate) fn send(&mut self, letter: Letter, twist: Twist, due: Timestamp) -> u64 {
        let delivery = self.make(letter, twist, due);
        let seq = delivery.seq;
        self.open.insert(seq, delivery);
        seq
    }

    fn make(&mut self, letter: Letter, twist: Twist, due: Timestamp) -> Delivery {
        self.seq += 1;
        Delivery {
            seq: self.seq,
            webhook_id: letter.webhook_id,
            event_type: letter.event_type,
            name: letter.name,
            to: letter.to,
            url: letter.url,
            body: letter.body,
            twist,
            due,
            after: None,
            overtaken_by: None,
            state: DeliveryState::Waiting,
            attempts: 0,
            status: None,
            sent_at: None,
            sent: None,
        }
    }

    /// What is due now, marked as being sent.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Vec<Delivery> {
        let due: Vec<u64> = self
            .open
            .values()
            .filter(|d| self.ready_at(d).is_some_and(|at| at <= now))
            .map(|d| d.seq)
            .collect();
        due.into_iter()
            .filter_map(|seq| {
                let delivery = self.open.get_mut(&seq)?;
                delivery.state = DeliveryState::Sending;
                Some(delivery.clone())
            })
            .collect()
    }

    /// When the next delivery is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.open.values().filter_map(|d| self.ready_at(d)).min()
    }

    /// When this may be sent; `None` while it waits for another or is on its way.
    fn ready_at(&self, delivery: &Delivery) -> Option<Timestamp> {
        let waits_for = delivery
            .after
            .is_some_and(|seq| self.open.contains_key(&seq));
        if delivery.state != DeliveryState::Waiting || waits_for {
            return None;
        }
        Some(
            delivery
                .overtaken_by
                .map_or(delivery.due, |held| held.max(delivery.due)),
        )
    }

    /// Writes down how an attempt went; a failed honest one waits for its next try.
    pub(crate) fn settle(
        &mut self,
        seq: u64,
        attempt: Attempt,
        retry: Backoff,
        most: u32,
        unit: f64,
    ) {
        let Some(mut delivery) = self.open.remove(&seq) else {
            return;
        };
        let arrived = attempt.status.is_some_and(|s| (200..300).contains(&s));
        delivery.attempts += 1;
        delivery.status = attempt.status;
        delivery.sent_at = Some(attempt.at);
        delivery.sent = Some(attempt.sent);
        if arrived {
            delivery.state = DeliveryState::Delivered;
            for other in self.open.values_mut().filter(|o| o.name != delivery.name) {
                other.overtaken_by = None;
            }
        } else if delivery.twist == Twist::Honest && delivery.attempts < most {
            delivery.state = DeliveryState::Waiting;
            delivery.due = attempt.at.after(retry.delay(delivery.attempts, unit));
            self.open.insert(seq, delivery);
            return;
        } else {
            delivery.state = DeliveryState::GaveUp;
        }
        self.remember(delivery);
    }

    /// Takes a delivery out of the outbox without sending it.
    pub(crate) fn abandon(&mut self, seq: u64) {
        if let Some(mut delivery) = self.open.remove(&seq) {
            delivery.state = DeliveryState::Dropped;
            self.remember(delivery);
        }
    }

    fn remember(&mut self, delivery: Delivery) {
        if self.settled.len() >= REMEMBERED {
            self.settled.pop_front();
        }
        self.settled.push_back(delivery);
    }

    /// Every delivery, oldest first.
    pub(crate) fn all(&self) -> Vec<&Delivery> {
        let mut all: Vec<&Delivery> = self.settled.iter().chain(self.open.values()).collect();
        all.sort_by_key(|d| d.seq);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::HELD_BACK;
    use super::*;

    const RETRY: Backoff = Backoff {
        first: Duration::from_secs(1),
        cap: Duration::from_secs(8),
    };

    fn letter(name: &str) -> Letter {
        Letter {
            webhook_id: format!("msg_{name}"),
            event_type: "batch.succeeded".to_owned(),
            name: name.to_owned(),
            to: To::Configured,
            url: "http://127.0.0.1:1/h".to_owned(),
            body: Bytes::from_static(b"{}"),
        }
    }

    fn answer(outbox: &mut Outbox, seq: u64, status: u16, at: Timestamp) {
        let sent = Sent {
            timestamp: 0,
            signature: None,
            body: Bytes::new(),
        };
        let attempt = Attempt {
            status: Some(status),
            at,
            sent,
        };
        outbox.settle(seq, attempt, RETRY, 3, 0.5);
    }

    fn due(outbox: &mut Outbox, now: Timestamp) -> Vec<String> {
        let due = outbox.take_due(now);
        due.into_iter().map(|d| d.name).collect()
    }

    #[test]
    fn an_honest_delivery_is_tried_again_and_a_spoiled_one_is_not() {
        let (mut outbox, t0) = (Outbox::default(), Timestamp::from_millis(0));
        outbox.post(letter("a"), WebhookPlan::default(), t0);
        outbox.post(letter("b"), WebhookPlan::of(Mode::Tamper), t0);
        assert_eq!(due(&mut outbox, t0), ["a", "b"]);
        answer(&mut outbox, 1, 503, t0);
        answer(&mut outbox, 2, 401, t0);
        assert_eq!(outbox.next_due(), Some(t0.after(Duration::from_secs(1))));
        assert!(due(&mut outbox, t0).is_empty());
        let later = t0.after(Duration::from_secs(1));
        assert_eq!(due(&mut outbox, later), ["a"]);
        answer(&mut outbox, 1, 200, later);
        let states: Vec<_> = outbox.all().iter().map(|d| (d.state, d.attempts)).collect();
        assert_eq!(
            states,
            [(DeliveryState::Delivered, 2), (DeliveryState::GaveUp, 1)]
        );
    }

    #[test]
    fn tries_are_bounded() {
        let (mut outbox, mut now) = (Outbox::default(), Timestamp::from_millis(0));
        outbox.post(letter("a"), WebhookPlan::default(), now);
        for _ in 0..3 {
            assert_eq!(due(&mut outbox, now), ["a"]);
            answer(&mut outbox, 1, 500, now);
            now = now.after(Duration::from_mins(1));
        }
        assert!(due(&mut outbox, now).is_empty());
        assert_eq!(outbox.all()[0].state, DeliveryState::GaveUp);
    }

    #[test]
    fn the_copy_follows_the_original() {
        let (mut outbox, t0) = (Outbox::default(), Timestamp::from_millis(0));
        outbox.post(letter("a"), WebhookPlan::of(Mode::Twice), t0);
        assert_eq!(outbox.take_due(t0).len(), 1);
        assert!(outbox.take_due(t0).is_empty());
        answer(&mut outbox, 1, 200, t0);
        let copy = outbox.take_due(t0);
        assert_eq!(copy[0].webhook_id, "msg_a");
    }

    #[test]
    fn a_held_event_is_overtaken_by_one_of_another_job_but_not_held_for_ever() {
        let (mut outbox, t0) = (Outbox::default(), Timestamp::from_millis(0));
        outbox.post(letter("a"), WebhookPlan::of(Mode::Reorder), t0);
        assert!(due(&mut outbox, t0).is_empty());
        outbox.post(letter("b"), WebhookPlan::default(), t0);
        assert_eq!(due(&mut outbox, t0), ["b"]);
        answer(&mut outbox, 2, 200, t0);
        assert_eq!(due(&mut outbox, t0), ["a"]);

        outbox.post(letter("c"), WebhookPlan::of(Mode::Reorder), t0);
        assert_eq!(outbox.next_due(), Some(t0.after(HELD_BACK)));
        assert_eq!(due(&mut outbox, t0.after(HELD_BACK)), ["c"]);
    }

    #[test]
    fn a_dropped_event_is_never_due() {
        let (mut outbox, t0) = (Outbox::default(), Timestamp::from_millis(0));
        outbox.post(letter("a"), WebhookPlan::of(Mode::Drop), t0);
        assert_eq!(outbox.next_due(), None);
        assert_eq!(outbox.all()[0].state, DeliveryState::Dropped);
    }
}
