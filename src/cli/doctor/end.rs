//! How a check ends, as a document and as lines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::output::printable;
use crate::store::Violation;

/// One thing that is not as it should be.
pub(super) struct Finding {
    what: String,
    remedy: String,
    /// Goes on as it is, for now.
    mild: bool,
    /// The broken promise, when it is one.
    invariant: Option<&'static str>,
    place: Option<String>,
}

/// How one check ended.
pub(super) enum End {
    /// Nothing is wrong; what there is to say besides.
    Ok(String),
    /// At least one finding; a warning when all are mild.
    Found(Vec<Finding>),
    /// It could not be told, and why.
    Skipped(String),
}

impl Finding {
    pub(super) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
            mild: false,
            invariant: None,
            place: None,
        }
    }

    pub(super) fn mild(mut self) -> Self {
        self.mild = true;
        self
    }

    pub(super) fn at(mut self, place: &str) -> Self {
        self.place = Some(place.to_owned());
        self
    }

    fn line(&self) -> String {
        let start = [self.invariant, self.place.as_deref()];
        let mut line = start.into_iter().flatten().collect::<Vec<_>>().join(" ");
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&self.what);
        if !self.remedy.is_empty() {
            line.push_str("; ");
            line.push_str(&self.remedy);
        }
        printable(&line)
    }
}

impl From<Finding> for End {
    fn from(finding: Finding) -> Self {
        Self::Found(vec![finding])
    }
}

impl From<Violation> for Finding {
    fn from(broken: Violation) -> Self {
        Self {
            what: broken.what,
            remedy: broken.remedy.to_owned(),
            mild: false,
            invariant: Some(broken.invariant),
            place: Some(broken.place),
        }
    }
}

impl End {
    /// `note` when nothing was found.
    pub(super) fn of(findings: Vec<Finding>, note: impl Into<String>) -> Self {
        if findings.is_empty() {
            Self::Ok(note.into())
        } else {
            Self::Found(findings)
        }
    }

    pub(super) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped(why.into())
    }

    fn state(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Found(findings) if findings.iter().all(|f| f.mild) => "warning",
            Self::Found(_) => "problem",
            Self::Skipped(_) => "skipped",
        }
    }

    pub(super) fn is_problem(&self) -> bool {
        self.state() == "problem"
    }

    pub(super) fn document(&self, name: &str) -> Value {
        let state = self.state();
        match self {
            Self::Ok(note) | Self::Skipped(note) => {
                json!({"check": name, "state": state, "note": note})
            }
            Self::Found(findings) => {
                let findings = findings.iter().map(|f| {
                    json!({"invariant": f.invariant, "place": f.place, "what": f.what, "remedy": f.remedy})
                });
                json!({"check": name, "state": state, "findings": findings.collect::<Vec<_>>()})
            }
        }
    }

    pub(super) fn text(&self, name: &str) -> String {
        let mut text = format!("{name:13}  {:7}", self.state());
        match self {
            Self::Ok(note) | Self::Skipped(note) => _ = write!(text, "  {}", printable(note)),
            Self::Found(findings) => {
                text.truncate(text.trim_end().len());
                for finding in findings {
                    _ = write!(text, "\n  {}", finding.line());
                }
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}
