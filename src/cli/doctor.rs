//! `doctor`: everything that can be judged about this installation without changing it.
//!
//! Design: a list of checks, each of which ends as `well`, `ill` with its findings, or `skipped` because
//! an earlier one stands in its way. A finding says what is wrong, where, and what to do. The file is
//! opened read-only and without the lock, so the answer is the same beside a service as without one;
//! what a service repairs by itself within seconds may show up if it is asked at that instant.

use std::fmt::Write as _;
use std::path::Path;

use bytesize::ByteSize;
use serde_json::{Value, json};

use super::args::Global;
use super::failure::Failure;
use super::output::{Output, printable};
use super::{check, load};
use crate::base::clock::{Clock as _, SystemClock};
use crate::config::Settings;
use crate::reconcile::upkeep;
use crate::store::{self, Bounds, Reader, Violation};

/// One thing that is wrong.
struct Finding {
    what: String,
    remedy: String,
    /// The broken promise, when it is one.
    invariant: Option<&'static str>,
    place: Option<String>,
}

/// How one check ended.
enum End {
    /// Nothing is wrong; what there is to say besides.
    Well(String),
    Ill(Vec<Finding>),
    Skipped(&'static str),
}

pub(super) async fn run(global: &Global, output: &Output) -> Result<(), Failure> {
    let configuration = match check::usable(global)? {
        Ok(_) => End::Well(String::new()),
        Err(problems) => {
            let finding =
                |p: &crate::config::Problem| Finding::new(p.what.clone(), p.fix.clone()).at(&p.key);
            End::Ill(problems.0.iter().map(finding).collect())
        }
    };
    // A file can be judged although a secret is missing.
    let ends = match load::for_client(global) {
        Ok(loaded) => file_checks(&loaded.settings).await,
        Err(_) => FILE_CHECKS.map(|name| (name, End::Skipped("the configuration cannot be read"))),
    };
    let ends: Vec<_> = [("configuration", configuration)]
        .into_iter()
        .chain(ends)
        .collect();
    let well = !ends.iter().any(|(_, end)| matches!(end, End::Ill(_)));
    let document = json!({
        "well": well,
        "checks": ends.iter().map(|(name, end)| end.document(name)).collect::<Vec<_>>(),
    });
    output.answer(&document, |_| {
        ends.iter().map(|(name, end)| end.text(name)).collect()
    })?;
    if well { Ok(()) } else { Err(Failure::Silent) }
}

const FILE_CHECKS: [&str; 3] = ["disk", "file", "ledger"];

async fn file_checks(settings: &Settings) -> [(&'static str, End); 3] {
    let path = settings.store.path.as_path();
    let (file, ledger) = match Reader::open(path).await {
        Ok(reader) => (form(&reader).await, promises(&reader, settings).await),
        Err(error) => (
            End::Ill(vec![Finding::new(error.to_string(), String::new())]),
            End::Skipped("the file cannot be opened"),
        ),
    };
    let [a, b, c] = FILE_CHECKS;
    [
        (a, disk(path, settings.store.min_free_disk)),
        (b, file),
        (c, ledger),
    ]
}

/// Room for more, on a file system that keeps its promises.
fn disk(path: &Path, wanted: u64) -> End {
    if let Err(error) = store::check_file_system(path) {
        return End::Ill(vec![Finding::new(error.to_string(), String::new())]);
    }
    match store::disk_free(path) {
        None => End::Skipped("the system does not tell how much is free"),
        Some(free) if free < wanted => End::Ill(vec![Finding::new(
            format!("only {} are free, store.min_free_disk is {}", ByteSize(free), ByteSize(wanted)),
            "make room: below it the service is not ready, and on a full disk it refuses deliveries".to_owned(),
        )]),
        Some(free) => End::Well(format!("{} free", ByteSize(free))),
    }
}

/// The properties that a file is made with and that no later start repairs.
async fn form(reader: &Reader) -> End {
    match reader.form().await {
        Ok(wrong) if wrong.is_empty() => End::Well(reader.path().display().to_string()),
        Ok(wrong) => {
            let remedy =
                "something else has written this file: restore a backup that hookledger wrote";
            End::Ill(
                wrong
                    .into_iter()
                    .map(|what| Finding::new(what, remedy.to_owned()))
                    .collect(),
            )
        }
        Err(error) => End::Ill(vec![Finding::new(error.to_string(), String::new())]),
    }
}

async fn promises(reader: &Reader, settings: &Settings) -> End {
    let bounds = Bounds {
        now: SystemClock::new().now(),
        dedupe_ttl: settings.hooks.dedupe_ttl,
        items_kept: upkeep::FINISHED,
        max_attempts: settings.worker.max_attempts,
        longest_pause: crate::reconcile::longest_pause(settings),
        drained: false,
    };
    match reader.audit(&bounds).await {
        Ok(broken) if broken.is_empty() => End::Well("every promise is kept".to_owned()),
        Ok(broken) => End::Ill(broken.into_iter().map(Finding::from).collect()),
        Err(error) => End::Ill(vec![Finding::new(error.to_string(), String::new())]),
    }
}

impl Finding {
    fn new(what: String, remedy: String) -> Self {
        Self {
            what,
            remedy,
            invariant: None,
            place: None,
        }
    }

    fn at(mut self, place: &str) -> Self {
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

impl From<Violation> for Finding {
    fn from(broken: Violation) -> Self {
        Self {
            what: broken.what,
            remedy: broken.remedy.to_owned(),
            invariant: Some(broken.invariant),
            place: Some(broken.place),
        }
    }
}

impl End {
    fn document(&self, name: &str) -> Value {
        match self {
            Self::Well(note) => json!({"check": name, "state": "well", "note": note}),
            Self::Skipped(why) => json!({"check": name, "state": "skipped", "note": why}),
            Self::Ill(findings) => {
                let findings = findings.iter().map(|f| {
                    json!({"invariant": f.invariant, "place": f.place, "what": f.what, "remedy": f.remedy})
                });
                json!({"check": name, "state": "ill", "findings": findings.collect::<Vec<_>>()})
            }
        }
    }

    fn text(&self, name: &str) -> String {
        let mut text = match self {
            Self::Well(note) => format!("{name:13}  well     {}", printable(note)),
            Self::Skipped(why) => format!("{name:13}  skipped  {why}"),
            Self::Ill(_) => format!("{name:13}  ill"),
        };
        text.truncate(text.trim_end().len());
        if let Self::Ill(findings) = self {
            for finding in findings {
                _ = write!(text, "\n  {}", finding.line());
            }
        }
        text.push('\n');
        text
    }
}
