//! The bodies that effects and alerts carry.
//!
//! A body is built once, stored, and sent byte for byte in every attempt, so a receiver that keeps
//! the first and compares the second finds them equal. Unknown fields may be added later; none that
//! is here changes its meaning.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::clock::Timestamp;
use crate::domain::effect::Trigger;
use crate::domain::observation::{Counts, Output};
use crate::domain::operation::{JobKind, Kind, OperationName};
use crate::domain::work::Reason;

/// What is said about a settled operation, or about a pending one whose flag triggered an effect.
#[derive(Debug, Clone)]
pub struct Settled<'a> {
    /// When it settled, or when the flag was raised.
    pub timestamp: Timestamp,
    /// The ledger id.
    pub id: &'a str,
    /// The operation's name.
    pub name: &'a OperationName,
    /// Its kind.
    pub kind: Kind,
    /// Its job kind.
    pub job_kind: &'a JobKind,
    /// The ending, or the flag.
    pub state: Trigger,
    /// What led to settlement; none for a flag.
    pub settled_by: Option<Reason>,
    /// What the submitter gave along.
    pub user_metadata: Option<&'a Value>,
    /// The short summary of the fetched state.
    pub summary: &'a Value,
}

/// What is said about an alert.
#[derive(Debug, Clone)]
pub struct Alert<'a> {
    /// Whether it ends an alert that was told before.
    pub recovered: bool,
    /// When it opened or recovered.
    pub timestamp: Timestamp,
    /// What the alert is about, stable between opening and recovery.
    pub subject: &'a str,
    /// One sentence for people.
    pub summary: &'a str,
    /// When it opened.
    pub since: Timestamp,
    /// The operation it is about, if it is about one.
    pub operation: Option<&'a OperationName>,
}

#[derive(Serialize)]
struct Envelope<T> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Timestamp,
    data: T,
}

#[derive(Serialize)]
struct SettledData<'a> {
    id: &'a str,
    name: &'a OperationName,
    kind: Kind,
    job_kind: &'a str,
    state: &'static str,
    settled_by: Option<Reason>,
    user_metadata: Option<&'a Value>,
    summary: &'a Value,
}

#[derive(Serialize)]
struct AlertData<'a> {
    subject: &'a str,
    summary: &'a str,
    since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a OperationName>,
}

/// The body of a settled operation's effect.
pub fn settled(of: &Settled<'_>) -> Bytes {
    let kind = match of.state {
        Trigger::State(_) => "operation.settled",
        Trigger::RequiresAction => "operation.requires_action",
        Trigger::Overdue => "operation.overdue",
    };
    to_bytes(&Envelope {
        kind,
        timestamp: of.timestamp,
        data: SettledData {
            id: of.id,
            name: of.name,
            kind: of.kind,
            job_kind: of.job_kind.as_str(),
            state: of.state.as_str(),
            settled_by: of.settled_by,
            user_metadata: of.user_metadata,
            summary: of.summary,
        },
    })
}

/// The body of an alert.
pub fn alert(of: &Alert<'_>) -> Bytes {
    to_bytes(&Envelope {
        kind: if of.recovered {
            "alert.recovered"
        } else {
            "alert.opened"
        },
        timestamp: of.timestamp,
        data: AlertData {
            subject: of.subject,
            summary: of.summary,
            since: of.since,
            operation: of.operation,
        },
    })
}

fn to_bytes<T: Serialize>(envelope: &Envelope<T>) -> Bytes {
    // Strings, words and ready JSON values: there is nothing here that serialisation can refuse.
    serde_json::to_vec(envelope).unwrap_or_default().into()
}

/// A stored body read back, by effects that act on what it says.
#[derive(Debug, Deserialize)]
pub(super) struct Read {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) timestamp: Timestamp,
    pub(super) data: ReadData,
}

/// The fields of both bodies; each is there only in its own.
#[derive(Debug, Deserialize)]
pub(super) struct ReadData {
    pub(super) name: Option<OperationName>,
    pub(super) job_kind: Option<String>,
    pub(super) state: Option<String>,
    pub(super) settled_by: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) since: Option<Timestamp>,
    #[serde(default)]
    pub(super) summary: Value,
}

impl ReadData {
    /// Where the output is, when the summary says so in a form we know, and whole: a summary is
    /// bounded, and says by `left_out` that a list in it is not.
    pub(super) fn output(&self) -> Option<Output> {
        let output = self.summary.get("output")?;
        if output.get("left_out").is_some() {
            return None;
        }
        Output::deserialize(output).ok()
    }

    /// The batch's own counts.
    pub(super) fn counts(&self) -> Option<Counts> {
        Counts::deserialize(self.summary.get("counts")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::operation::OperationState;
    use serde_json::json;

    #[test]
    fn a_settled_body_has_the_published_fields_and_reads_back() {
        let name: OperationName = "batches/a".parse().unwrap();
        let summary = json!({"output": {"at": "file", "name": "files/x"}, "counts": {"requests": 9, "succeeded": 9, "failed": 0}});
        let metadata = json!({"team": "captions"});
        let body = settled(&Settled {
            timestamp: Timestamp::from_millis(1_769_083_200_015),
            id: "0190",
            name: &name,
            kind: Kind::Batch,
            job_kind: &"nightly".parse().unwrap(),
            state: Trigger::State(OperationState::Succeeded),
            settled_by: Some(Reason::Webhook),
            user_metadata: Some(&metadata),
            summary: &summary,
        });
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            value,
            json!({
                "type": "operation.settled",
                "timestamp": "2026-01-22T12:00:00.015Z",
                "data": {
                    "id": "0190", "name": "batches/a", "kind": "batch", "job_kind": "nightly",
                    "state": "succeeded", "settled_by": "webhook", "user_metadata": metadata,
                    "summary": summary,
                }
            })
        );
        let read: Read = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            read.data.output(),
            Some(Output::File {
                name: "files/x".to_owned()
            })
        );
        assert_eq!(read.data.counts().unwrap().requests, 9);
    }

    #[test]
    fn an_alert_says_whether_it_opens_or_ends() {
        let mut of = Alert {
            recovered: false,
            timestamp: Timestamp::from_millis(60_000),
            subject: "stuck:batches/a",
            summary: "pending for over 6 h",
            since: Timestamp::from_millis(0),
            operation: None,
        };
        let kind = |of: &Alert<'_>| {
            let read: Read = serde_json::from_slice(&alert(of)).unwrap();
            (
                read.kind,
                read.data.subject.unwrap(),
                read.data.since.unwrap(),
            )
        };
        let since = Timestamp::from_millis(0);
        assert_eq!(
            kind(&of),
            ("alert.opened".into(), "stuck:batches/a".into(), since)
        );
        of.recovered = true;
        assert_eq!(kind(&of).0, "alert.recovered");
    }
}
