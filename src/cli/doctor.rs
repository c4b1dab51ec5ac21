//! `doctor`: everything that can be judged about this installation without changing it.
//!
//! Design: a list of checks, each of which ends as `ok`, as `warning` or `problem` with its findings, or
//! as `skipped` because something stands in its way. A finding says what is wrong, where, and what to
//! do. The file is opened read-only and without the lock, so the answer is the same beside a service as
//! without one; what a service repairs by itself within seconds may show up if it is asked at that
//! instant. What is asked elsewhere is asked at the same time, and each answer is waited for a few
//! seconds at most.

mod end;
mod path;
mod provider;

use std::path::Path;
use std::time::Duration;

use bytesize::ByteSize;
use serde_json::json;

use self::end::{End, Finding};
use super::args::Global;
use super::failure::Failure;
use super::output::Output;
use super::{check, load};
use crate::base::clock::{Clock as _, SystemClock};
use crate::config::Settings;
use crate::reconcile::upkeep;
use crate::store::{self, Bounds, Reader};

/// Longest wait for one answer from elsewhere.
const WAIT: Duration = Duration::from_secs(5);

pub(super) async fn run(global: &Global, output: &Output) -> Result<(), Failure> {
    let configuration = match check::usable(global)? {
        Ok(loaded) => {
            let remedy = "see the table of keys in config/default.toml";
            let warnings = loaded
                .warnings
                .iter()
                .map(|w| Finding::new(w.what.clone(), remedy).mild().at(&w.key));
            End::of(warnings.collect(), "")
        }
        Err(problems) => {
            let finding =
                |p: &crate::config::Problem| Finding::new(p.what.clone(), p.fix.clone()).at(&p.key);
            End::Found(problems.0.iter().map(finding).collect())
        }
    };
    // A file can be judged although a secret is missing.
    let others = if let Ok(loaded) = load::for_client(global) {
        let settings = &loaded.settings;
        let (file, provider, path) = tokio::join!(
            file_checks(settings),
            provider::checks(settings),
            path::check(settings)
        );
        file.into_iter().chain(provider).chain([path]).collect()
    } else {
        let skipped = |_| End::skipped("the configuration cannot be read");
        (1..NAMES.len()).map(skipped).collect::<Vec<_>>()
    };
    let ends = std::iter::once(configuration).chain(others);
    let ends: Vec<_> = NAMES.into_iter().zip(ends).collect();
    let well = !ends.iter().any(|(_, end)| end.is_problem());
    let document = json!({
        "well": well,
        "checks": ends.iter().map(|(name, end)| end.document(name)).collect::<Vec<_>>(),
    });
    output.answer(&document, |_| {
        ends.iter().map(|(name, end)| end.text(name)).collect()
    })?;
    if well { Ok(()) } else { Err(Failure::Silent) }
}

const NAMES: [&str; 9] = [
    "configuration",
    "disk",
    "file",
    "ledger",
    "clock",
    "key",
    "models",
    "webhook",
    "path",
];

async fn file_checks(settings: &Settings) -> [End; 3] {
    let path = settings.store.path.as_path();
    let (file, ledger) = match Reader::open(path).await {
        Ok(reader) => (form(&reader).await, promises(&reader, settings).await),
        Err(error) => {
            let remedy = "`hookledger serve` makes it at store.path (HOOK_DB); a damaged one is replaced \
                          by `hookledger restore`";
            (
                Finding::new(error.to_string(), remedy).into(),
                End::skipped("the file cannot be opened"),
            )
        }
    };
    [disk(path, settings.store.min_free_disk), file, ledger]
}

/// Room for more, on a file system that keeps its promises.
fn disk(path: &Path, wanted: u64) -> End {
    if let Err(error) = store::check_file_system(path) {
        return Finding::new(error.to_string(), "put store.path on a local disk").into();
    }
    match store::disk_free(path) {
        None => End::skipped("the system does not tell how much is free"),
        Some(free) if free < wanted => Finding::new(
            format!("only {} are free, store.min_free_disk is {}", ByteSize(free), ByteSize(wanted)),
            "make room: below it the service is not ready, and on a full disk it refuses deliveries",
        )
        .into(),
        Some(free) => End::Ok(format!("{} free", ByteSize(free))),
    }
}

/// The properties that a file is made with and that no later start repairs.
async fn form(reader: &Reader) -> End {
    match reader.form().await {
        Ok(wrong) if wrong.is_empty() => End::Ok(reader.path().display().to_string()),
        Ok(wrong) => {
            let remedy =
                "something else has written this file: restore a backup that hookledger wrote";
            End::Found(
                wrong
                    .into_iter()
                    .map(|what| Finding::new(what, remedy))
                    .collect(),
            )
        }
        Err(error) => Finding::new(error.to_string(), "").into(),
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
        Ok(broken) if broken.is_empty() => End::Ok("every promise is kept".to_owned()),
        Ok(broken) => End::Found(broken.into_iter().map(Finding::from).collect()),
        Err(error) => Finding::new(error.to_string(), "").into(),
    }
}
