//! Operations: their names, kinds and states.
//!
//! An operation name comes from webhook bodies and from users, and ends in a URL that carries the
//! API key. [`OperationName`] is the only type that may become a path, and its parser is the only
//! way to make one: fixed shapes, a small alphabet, no `.` or `..` segment, a bounded length.
//!
//! A webhook may name an operation by its full name, a bare last segment or `batch_{id}`
//! (the provider documents none of them), so what a delivery names is an [`OperationRef`]: kept
//! raw, matched by last segment, and turned into names to try only when the worker resolves it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest accepted operation name, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Longest accepted path segment, in bytes.
pub const MAX_SEGMENT_BYTES: usize = 128;

/// What sort of job an operation is, as far as its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `batches/{id}`
    Batch,
    /// `models/{model}/operations/{op}`: Veo video generation
    Video,
    /// `interactions/{id}`
    Interaction,
    /// `{parent}/operations/{op}`: any other long-running operation
    Operation,
}

impl Kind {
    /// The word used in tables, JSON and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Video => "video",
            Self::Interaction => "interaction",
            Self::Operation => "operation",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Batch, Self::Video, Self::Interaction, Self::Operation]
            .into_iter()
            .find(|k| k.as_str() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A canonical operation name, safe to put into a URL path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct OperationName(String);

/// The text is not an operation name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an operation name: expected batches/ID, interactions/ID, models/MODEL/operations/ID or \
     PARENT/operations/ID, with segments of 1 to 128 characters from A-Z a-z 0-9 . _ ~ -"
)]
pub struct NotAnOperationName;

fn is_segment(s: &str) -> bool {
    (1..=MAX_SEGMENT_BYTES).contains(&s.len())
        && s != "."
        && s != ".."
        && s.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._~-".contains(&b))
}

impl FromStr for OperationName {
    type Err = NotAnOperationName;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if s.len() > MAX_NAME_BYTES || !s.split('/').all(is_segment) {
            return Err(NotAnOperationName);
        }
        let segments: Vec<&str> = s.split('/').collect();
        match *segments.as_slice() {
            ["batches" | "interactions", _] | [_, .., "operations", _] => Ok(Self(s.to_owned())),
            _ => Err(NotAnOperationName),
        }
    }
}

impl OperationName {
    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last path segment: what a webhook's short id is matched with.
    pub fn segment(&self) -> &str {
        last_segment(&self.0)
    }

    /// The kind this shape of name stands for.
    pub fn kind(&self) -> Kind {
        match self.0.split('/').collect::<Vec<_>>().as_slice() {
            ["batches", _] => Kind::Batch,
            ["interactions", _] => Kind::Interaction,
            ["models", _, "operations", _] => Kind::Video,
            _ => Kind::Operation,
        }
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for OperationName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

fn last_segment(s: &str) -> &str {
    s.rsplit('/').next().unwrap_or(s)
}

/// An operation as somebody named it: perhaps in full, perhaps by a short id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRef {
    raw: String,
    kind_hint: Option<Kind>,
}

impl OperationRef {
    /// Reads what a delivery calls its operation. `None` when it cannot name one: an illegal
    /// character, an empty or overlong text, a URL.
    pub fn parse(raw: &str, kind_hint: Option<Kind>) -> Option<Self> {
        let legal = raw.len() <= MAX_NAME_BYTES && raw.split('/').all(is_segment);
        legal.then(|| Self {
            raw: raw.to_owned(),
            kind_hint,
        })
    }

    /// The text as it came.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The kind that the event type suggested.
    pub fn kind_hint(&self) -> Option<Kind> {
        self.kind_hint
    }

    /// The last path segment, by which the ledger is searched.
    pub fn segment(&self) -> &str {
        last_segment(&self.raw)
    }

    /// Segments under which the ledger may know this operation: its own and, for the documented
    /// `batch_{id}` form, the part behind the prefix.
    pub fn ledger_segments(&self) -> Vec<&str> {
        let own = self.segment();
        let behind = own.strip_prefix("batch_").filter(|rest| is_segment(rest));
        std::iter::once(own).chain(behind).collect()
    }

    /// The full name, when the text is one.
    pub fn name(&self) -> Option<OperationName> {
        self.raw.parse().ok()
    }

    /// Names to ask the API for when the ledger knows no such segment, best first. Empty when a
    /// short id needs a parent nobody told us (a video operation without its model).
    pub fn candidates(&self) -> Vec<OperationName> {
        if let Some(name) = self.name() {
            return vec![name];
        }
        if self.raw.contains('/') {
            return Vec::new();
        }
        let parent = match self.kind_hint {
            Some(Kind::Interaction) => "interactions",
            Some(Kind::Video | Kind::Operation) => return Vec::new(),
            // Interaction ids are documented as `v1_…`; a bare id of any other shape is tried as a
            // batch, the only other kind that can be fetched by a bare id.
            None if self.raw.starts_with("v1_") => "interactions",
            Some(Kind::Batch) | None => "batches",
        };
        self.ledger_segments()
            .iter()
            .filter_map(|s| format!("{parent}/{s}").parse().ok())
            .collect()
    }
}

/// Where an operation stands in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Announced to us before the provider named it.
    Reserved,
    /// Submitted, no terminal state fetched yet.
    Pending,
    /// Ended well, with an output.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Cancelled at the provider.
    Cancelled,
    /// Not processed in the provider's time.
    Expired,
    /// Ended without output because safety filters removed all of it.
    Filtered,
    /// An interaction that stopped before it was complete.
    Incomplete,
    /// An interaction that ran out of its budget.
    BudgetExceeded,
    /// Closed, unproven: the API keeps saying that it does not exist.
    Gone,
    /// Closed, unproven: done with neither response nor error.
    Anomalous,
}

impl OperationState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 11] = [
        Self::Reserved,
        Self::Pending,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Filtered,
        Self::Incomplete,
        Self::BudgetExceeded,
        Self::Gone,
        Self::Anomalous,
    ];

    /// The word used in tables, JSON and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Filtered => "filtered",
            Self::Incomplete => "incomplete",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Gone => "gone",
            Self::Anomalous => "anomalous",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// Proven by a fetched body; never changes again.
    pub const fn is_settled(self) -> bool {
        matches!(
            self,
            Self::Succeeded
                | Self::Failed
                | Self::Cancelled
                | Self::Expired
                | Self::Filtered
                | Self::Incomplete
                | Self::BudgetExceeded
        )
    }

    /// Closed without proof: looked at daily, and may still settle.
    pub const fn is_closed_unproven(self) -> bool {
        matches!(self, Self::Gone | Self::Anomalous)
    }

    /// Whether `self → to` is a transition the ledger allows.
    pub const fn may_become(self, to: Self) -> bool {
        match self {
            Self::Reserved => matches!(to, Self::Pending),
            Self::Pending => to.is_settled() || to.is_closed_unproven(),
            Self::Gone | Self::Anomalous => to.is_settled() || matches!(to, Self::Pending),
            _ => false,
        }
    }

    /// Whether the provider has a webhook event for an operation of `kind` that ends like this.
    ///
    /// From the subscribable events: `batch.succeeded|failed|expired`,
    /// `interaction.completed|failed`, `video.generated`. Endings outside it (a failed video, a
    /// cancelled batch) are only ever found by reconciliation.
    pub const fn has_event(self, kind: Kind) -> bool {
        match kind {
            Kind::Batch => matches!(self, Self::Succeeded | Self::Failed | Self::Expired),
            Kind::Interaction => matches!(self, Self::Succeeded | Self::Failed),
            Kind::Video => matches!(self, Self::Succeeded),
            Kind::Operation => false,
        }
    }
}

impl fmt::Display for OperationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The operator's word for what a job is for; effects are chosen by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct JobKind(String);

/// The text is not a job kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job_kind must be 1 to 64 characters from A-Z a-z 0-9 . _ - and not start with a dot")]
pub struct NotAJobKind;

impl JobKind {
    /// The job kind of an operation nobody registered.
    pub const UNREGISTERED: &'static str = "unregistered";

    /// The job kind of an adopted operation.
    pub fn unregistered() -> Self {
        Self(Self::UNREGISTERED.to_owned())
    }

    /// Whether nobody has said yet what this job is for.
    pub fn is_unregistered(&self) -> bool {
        self.0 == Self::UNREGISTERED
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JobKind {
    type Err = NotAJobKind;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let legal = (1..=64).contains(&s.len())
            && !s.starts_with('.')
            && s.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        legal.then(|| Self(s.to_owned())).ok_or(NotAJobKind)
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_names_parse_and_tell_their_kind() {
        for (text, kind) in [
            ("batches/3a96ht58d9rd3fci7tg3qlrhlfawe5ykp6ge", Kind::Batch),
            (
                "interactions/v1_ChdXS0l4YWZXTk9xbk0xZThQ",
                Kind::Interaction,
            ),
            (
                "models/veo-3.1-generate-preview/operations/9p5ug42emn2z",
                Kind::Video,
            ),
            ("tunedModels/x/operations/y", Kind::Operation),
        ] {
            let name: OperationName = text.parse().unwrap();
            assert_eq!((name.kind(), name.as_str()), (kind, text));
        }
    }

    #[test]
    fn nothing_that_could_leave_its_path_is_a_name() {
        for text in [
            "",
            "batches",
            "batches/",
            "/batches/a",
            "batches/a/b",
            "batches/..",
            "batches/.",
            "batches/a?key=1",
            "batches/a#b",
            "batches/a%2fb",
            "batches/a b",
            "batches/ä",
            "https://evil.example/batches/a",
            "models/../operations/a",
            "operations/a",
            "batches/a\n",
            "batches/a:cancel",
            "files/abc",
        ] {
            assert!(text.parse::<OperationName>().is_err(), "{text:?}");
        }
        let long = format!("batches/{}", "a".repeat(129));
        assert!(long.parse::<OperationName>().is_err());
    }

    #[test]
    fn a_short_id_is_tried_under_the_parent_its_event_suggests() {
        let names = |raw: &str, hint| -> Vec<String> {
            let r = OperationRef::parse(raw, hint).unwrap();
            r.candidates().iter().map(ToString::to_string).collect()
        };
        assert_eq!(names("batches/a", None), ["batches/a"]);
        assert_eq!(
            names("batch_a1", Some(Kind::Batch)),
            ["batches/batch_a1", "batches/a1"]
        );
        assert_eq!(names("v1_abc", None), ["interactions/v1_abc"]);
        assert_eq!(names("abc", Some(Kind::Interaction)), ["interactions/abc"]);
        assert!(names("9p5ug42emn2z", Some(Kind::Video)).is_empty());
        assert!(OperationRef::parse("gs://bucket/x", None).is_none());
        assert!(OperationRef::parse("", None).is_none());
    }

    #[test]
    fn settled_states_never_change_and_every_word_reads_back() {
        for from in OperationState::ALL {
            assert_eq!(OperationState::from_word(from.as_str()), Some(from));
            for to in OperationState::ALL {
                assert!(
                    !(from.is_settled() && from.may_become(to)),
                    "{from} became {to}"
                );
            }
        }
        assert!(OperationState::Gone.may_become(OperationState::Succeeded));
        assert!(!OperationState::Reserved.may_become(OperationState::Succeeded));
    }

    #[test]
    fn endings_without_an_event_are_known() {
        assert!(OperationState::Succeeded.has_event(Kind::Video));
        assert!(!OperationState::Failed.has_event(Kind::Video));
        assert!(!OperationState::Cancelled.has_event(Kind::Batch));
    }
}
