//! A delivery's span.
//!
//! In the trace of the operation it names, or in one of its own. The sender's `traceparent` becomes a
//! link: he may be who he proved to be, and still say whatever he likes.

use bytes::Bytes;
use uuid::Uuid;

use crate::base::clock::Timestamp;
use crate::domain::event::Verdict;
use crate::telemetry::traces::{Kind, Place, Span, Trace, Value};

/// What a delivery's span tells, kept while the delivery itself is given away.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) event: Uuid,
    pub(super) source: String,
    pub(super) received_at: Timestamp,
    pub(super) event_type: Option<String>,
    pub(super) operation: Option<String>,
    pub(super) replay_of: Option<Uuid>,
    pub(super) link: Option<Place>,
}

/// The span that the sender says he is in.
pub(super) fn link(headers: &[(String, Bytes)]) -> Option<Place> {
    let said = headers.iter().find(|(name, _)| name == "traceparent");
    said.and_then(|(_, value)| Place::parse(value))
}

impl Facts {
    pub(super) fn span(self, verdict: Verdict, took: std::time::Duration) -> Span {
        let (at, parent) = match &self.operation {
            Some(name) => {
                let trace = Trace::of_operation(name);
                (trace.delivery(self.event), Some(trace.root()))
            }
            None => (Trace::of_event(self.event).delivery(self.event), None),
        };
        let event = self.event.to_string();
        let replay_of = self.replay_of.map(|id| id.to_string());
        let texts = [
            ("hookledger.source", Some(self.source.as_str())),
            ("hookledger.verdict", Some(verdict.as_str())),
            ("hookledger.event.id", Some(event.as_str())),
            ("hookledger.event.type", self.event_type.as_deref()),
            ("hookledger.event.replay_of", replay_of.as_deref()),
            ("hookledger.operation.name", self.operation.as_deref()),
        ];
        let known = texts
            .into_iter()
            .filter_map(|(key, text)| Some((key, Value::from(text?))));
        Span {
            at,
            parent,
            name: "delivery".to_owned(),
            kind: Kind::Server,
            began: self.received_at,
            took,
            attributes: known.collect(),
            link: self.link,
            error: None,
        }
    }
}
