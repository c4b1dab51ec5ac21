//! `demo`: the whole service against the built-in simulator, told line by line.
//!
//! Problem: a program that promises to lose nothing should not have to be believed, and trying it
//! should need neither a key nor a public address.
//!
//! Design: `stage` starts simulator, service and a receiver of effects in this process, `story`
//! sends five operations through five fates and states what it sees from outside as claims (data,
//! printed as they happen), `tale` reads every claim back from the database file through a fresh
//! read-only connection. With `--once` the service is stopped before that, so the file has to speak
//! for itself; otherwise it is read beside the running service, which then stays up to be played
//! with.
//!
//! The process's environment and configuration are left out on purpose: the demo must never write
//! to a real database nor ask a real API.

mod claim;
mod sink;
mod stage;
mod story;
mod tale;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use self::stage::Stage;
use self::story::Teller;
use self::tale::{Broken, Tale};
use super::failure::Failure;
use super::output::Output;
use crate::app;

/// Longest the story may take; with start, stop and reading back it stays under half a minute.
const LONGEST: Duration = Duration::from_secs(18);

/// `demo`'s arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Stop after the story, as with --json; exits 0 only if the database file confirms every claim
    #[arg(long)]
    once: bool,
    /// Keep the database (demo.db) and the claims (claims.json) in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Tell no story: read the claims kept in this directory back from the database beside them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["once", "keep"])]
    verify: Option<PathBuf>,
}

/// Where a demo leaves its files.
struct Place {
    database: PathBuf,
    claims: PathBuf,
}

impl Place {
    fn new(directory: &Path) -> Self {
        Self {
            database: directory.join("demo.db"),
            claims: directory.join("claims.json"),
        }
    }
}

pub(super) async fn run(verbose: u8, args: Args, output: &Output) -> Result<(), Failure> {
    let mut out: Box<dyn Write> = if output.is_json() {
        Box::new(io::sink())
    } else {
        Box::new(io::stdout())
    };
    if let Some(directory) = &args.verify {
        let place = Place::new(directory);
        let tale = Tale::load(&place.claims)?;
        return read_back(&tale, &place, &mut *out, output).await;
    }
    let temporary = tempfile::tempdir()?;
    let directory = args.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(directory)?;
    let place = Place::new(directory);

    let stage = Stage::start(&place.database, verbose).await?;
    let at = &stage.addresses;
    writeln!(
        out,
        "A fake Gemini API runs at http://{}, hookledger at http://{}, its ledger in {}.",
        at.simulator,
        at.public,
        place.database.display()
    )?;
    let mut tale = Tale::default();
    // One listener for signals all along: one that comes between two steps is not missed.
    let mut asked = app::Asked::listen()?;
    let telling = async { Teller::new(&stage, &mut *out, &mut tale).tell().await };
    let told = tokio::select! {
        told = tokio::time::timeout(LONGEST, telling) => told.unwrap_or_else(|_| {
            Err(Failure::failed(format!("the story did not end within {LONGEST:?}")))
        }),
        _ = asked.next() => Err(Failure::failed("stopped before the story ended")),
    };
    if let Err(failure) = told {
        stage.stop().await;
        return Err(failure);
    }
    if !args.once && !output.is_json() {
        tale.received = stage.sink.received();
        let read = read_back(&tale, &place, &mut *out, output).await;
        let played = play(&stage, &mut *out, &mut asked).await;
        stage.stop().await;
        return read.and(played);
    }
    let sink = stage.sink.clone();
    stage.stop().await;
    // Only now has everything arrived that ever will.
    tale.received = sink.received();
    if args.keep.is_some() {
        tale.save(&place.claims)?;
    }
    read_back(&tale, &place, &mut *out, output).await
}

/// Reads every claim back and says which do not hold.
async fn read_back(
    tale: &Tale,
    place: &Place,
    out: &mut dyn Write,
    output: &Output,
) -> Result<(), Failure> {
    let broken = tale.verify(&place.database).await?;
    let (all, wrong) = (tale.claims.len(), broken.len());
    writeln!(out, "\nRead back from {}:", place.database.display())?;
    for Broken { claim, instead } in &broken {
        writeln!(out, " ! {claim}: NOT SO, {instead}")?;
    }
    writeln!(out, "{} of {all} claims hold.", all - wrong)?;
    out.flush()?;
    if output.is_json() {
        let broken = broken
            .iter()
            .map(|b| json!({"claim": b.claim, "instead": b.instead}));
        let document = json!({
            "claims": tale.claims,
            "received": tale.received,
            "broken": broken.collect::<Vec<_>>(),
        });
        output.answer(&document, |_| String::new())?;
    }
    if broken.is_empty() && all > 0 {
        Ok(())
    } else {
        Err(Failure::Silent)
    }
}

/// Shows what to try, and every effect that arrives, until asked to stop.
async fn play(stage: &Stage, out: &mut dyn Write, asked: &mut app::Asked) -> Result<(), Failure> {
    let at = &stage.addresses;
    let (sim, admin, token) = (at.simulator, at.admin, &at.admin_token);
    writeln!(
        out,
        "\nEverything goes on until Ctrl-C. In another terminal:\n\n\
         SIM=http://{sim} ADMIN=http://{admin} AUTH='authorization: Bearer {token}'\n\
         # start a job that ends after two seconds; its name is in the answer\n\
         curl -s $SIM/_sim/operations -d '{{\"kind\": \"batch\"}}'\n\
         # one whose webhook is lost: only if it is registered can it be missed\n\
         curl -s $SIM/_sim/operations -d '{{\"kind\": \"batch\", \"webhook\": {{\"deliver\": \"drop\"}}}}'\n\
         # register it, look at it, list them all\n\
         curl -s -H \"$AUTH\" -H 'content-type: application/json' $ADMIN/api/v1/operations \\\n     \
         -d '{{\"name\": \"NAME\", \"job_kind\": \"mine\"}}'\n\
         curl -s -H \"$AUTH\" $ADMIN/api/v1/operations/NAME\n\
         curl -s -H \"$AUTH\" $ADMIN/api/v1/operations\n\
         # say that it succeeded, whatever is true\n\
         curl -s $SIM/_sim/forge -d '{{\"name\": \"NAME\", \"type\": \"batch.succeeded\"}}'\n\
         # health, and the counters\n\
         curl -s http://{}/healthz\n\
         curl -s $ADMIN/metrics\n",
        at.public
    )?;
    out.flush()?;
    let mut shown = stage.sink.received().len();
    loop {
        tokio::select! {
            () = stage.sink.arrived() => {
                for receipt in stage.sink.received().iter().skip(shown) {
                    writeln!(
                        out,
                        "effect: {} {}, key {}",
                        receipt.operation, receipt.state, receipt.key
                    )?;
                    shown += 1;
                }
                out.flush()?;
            }
            _ = asked.next() => return Ok(()),
        }
    }
}
