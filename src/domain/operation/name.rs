//! Names, and what a delivery may call an operation.
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
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Batch, Self::Video, Self::Interaction, Self::Operation];

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
        Self::ALL.into_iter().find(|k| k.as_str() == word)
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
}
