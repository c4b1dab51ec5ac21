//! Floor 4: from a verified delivery to a durable work item.
//!
//! Nothing heavy happens here: the body is read for what it names, and one write takes the event, its
//! dedupe row and its work item to disk. The answer comes after that commit. The write belongs to
//! the store's writer from the moment it is queued, before the first await; a client that hangs up
//! or a handler that is timed out changes nothing about it.
//!
//! Replay takes the same way in as a delivery, with an id of its own and no dedupe key, so that
//! dedupe cannot swallow it; effects are keyed by operation, so a replay repeats none.

mod bulk;
pub mod curl;
pub mod parse;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::base::clock::Clock;
use crate::base::ids::Ids;
use crate::store::{NewDelivery, Received, Store, StoreError};
use crate::telemetry::metrics;
use crate::telemetry::traces::Traces;
use crate::verify::envelope::{Proof, Verified};
use crate::verify::path_token::PathProof;

/// Takes verified deliveries to disk.
#[derive(Debug, Clone)]
pub struct Receiver {
    store: Store,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    dedupe_ttl: Duration,
    traces: Traces,
}

/// What became of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// It went through.
    Received(Received),
    /// Its body was removed, long after it came.
    Emptied,
    /// There is no such event.
    Unknown,
}

impl Receiver {
    /// A receiver whose dedupe rows live for `dedupe_ttl`.
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        dedupe_ttl: Duration,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            dedupe_ttl,
            traces: Traces::default(),
        }
    }

    /// With spans that go there.
    #[must_use]
    pub fn with_traces(mut self, traces: Traces) -> Self {
        self.traces = traces;
        self
    }

    /// Stores a delivery and answers once it is on disk.
    ///
    /// # Errors
    /// Nothing was stored; the sender should try again.
    pub async fn receive(&self, mut verified: Verified) -> Result<Received, StoreError> {
        let facts = parse::read(verified.body(), verified.webhook_id());
        let received_at = verified.received_at();
        let delivery = NewDelivery {
            id: self.ids.uuid(received_at),
            source: verified.source().to_owned(),
            received_at,
            event_type: facts.event_type,
            operation: facts.operation,
            dedupe_key: facts.dedupe_key.map(|key| dedupe_key(key, &verified)),
            dedupe_until: received_at.after(self.dedupe_ttl),
            ignored_because: facts.ignored_because,
            webhook_id: verified.webhook_id().map(ToOwned::to_owned),
            proof: verified
                .proofs()
                .iter()
                .map(|proof| proof.label())
                .collect::<Vec<_>>()
                .join("+"),
            reservation: match verified.path() {
                PathProof::Reservation(id) => Some(id),
                PathProof::Main => None,
            },
            replay_of: None,
            user_metadata: facts
                .user_metadata
                .or_else(|| verified.claimed_metadata().cloned()),
            headers: verified.take_headers(),
            body: verified.body().clone(),
        };
        let source = delivery.source.clone();
        let received = self.commit(delivery).await?;
        metrics::delivery(&source, received.verdict.as_str());
        Ok(received)
    }

    /// To disk, and a span about it.
    async fn commit(&self, delivery: NewDelivery) -> Result<Received, StoreError> {
        let facts = self.traces.is_on().then(|| trace::Facts {
            event: delivery.id,
            source: delivery.source.clone(),
            received_at: delivery.received_at,
            event_type: delivery.event_type.clone(),
            operation: delivery.operation.as_ref().map(|o| o.raw().to_owned()),
            replay_of: delivery.replay_of,
            link: trace::link(&delivery.headers),
        });
        let began = self.clock.monotonic();
        let received = self.store.deliver(delivery).await?;
        if let Some(facts) = facts {
            let took = self.clock.monotonic().saturating_sub(began);
            self.traces.record(|| facts.span(received.verdict, took));
        }
        Ok(received)
    }

    /// Puts a captured delivery through the queue once more.
    pub async fn replay(&self, event: Uuid) -> Result<Replayed, StoreError> {
        let Some(captured) = self.store.event(event).await? else {
            return Ok(Replayed::Unknown);
        };
        if captured.record.emptied_at.is_some() {
            return Ok(Replayed::Emptied);
        }
        let now = self.clock.now();
        let facts = parse::read(&captured.body, None);
        let delivery = NewDelivery {
            id: self.ids.uuid(now),
            source: captured.record.source,
            received_at: now,
            event_type: facts.event_type,
            operation: facts.operation,
            dedupe_key: None,
            dedupe_until: now,
            ignored_because: facts.ignored_because,
            webhook_id: None,
            proof: "replay".to_owned(),
            reservation: captured.reservation,
            replay_of: Some(event),
            user_metadata: facts.user_metadata,
            headers: captured
                .headers
                .into_iter()
                .map(|(n, v)| (n, v.into()))
                .collect(),
            body: captured.body.into(),
        };
        self.commit(delivery).await.map(Replayed::Received)
    }
}

/// The key by which copies of a delivery fold. A token covers neither the id nor the body, so whoever
/// has seen one could send it with the next delivery's id and another body, and the true one would
/// be taken for a copy: beside a token the key covers the body, too.
fn dedupe_key(said: String, verified: &Verified) -> String {
    if verified.proofs().contains(&Proof::Jwt) {
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(verified.body()));
        format!("{said}#{digest}")
    } else {
        said
    }
}
