//! Floor 7: the command line.
//!
//! Problem: an operator looks into the ledger while the service runs, before it first runs and after
//! it crashed, by hand and from scripts. The same command must work in each case and say the same.
//!
//! Design: `args` is the grammar, one file per noun does the work, `access::Access` is the one
//! place that knows whether the service or the file answers, and everything printed goes through
//! `output::Output`. What is printed is a JSON document first; tables are drawn from it, so both
//! forms always agree and both sides of `Access` only have to make the same document.
//!
//! Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 not found, 4 conflict, 5 the service
//! cannot be reached or refuses to be talked to. See `failure::Failure`.

mod access;
mod alerts;
mod args;
mod backup;
mod bulk;
mod check;
mod client;
mod curl;
mod demo;
mod doctor;
mod effects;
mod events;
mod failure;
mod file;
mod health;
mod import;
mod load;
mod manual;
mod operations;
mod output;
mod progress;
mod prune;
mod queue;
mod restore;
mod secret;
mod serve;
mod simulate;
mod watch;
mod webhooks;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use self::access::Access;
pub use self::args::Cli;
use self::args::Command;
use self::failure::Failure;
use self::output::Output;

/// The grammar, for tests and documentation.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads a command line, program name first.
///
/// # Errors
/// The exit code, after help, version or what is wrong was printed.
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Cli, ExitCode> {
    Cli::try_parse_from(line).map_err(|error| {
        // Nobody is left to be told when this cannot be printed.
        drop(error.print());
        u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
}

/// Carries a command out and says how it went.
pub fn start(cli: Cli) -> ExitCode {
    let output = Output::new(cli.global.json);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let end = match runtime {
        Ok(runtime) => runtime.block_on(run(cli, &output)),
        Err(error) => Err(Failure::failed(format!("cannot start a runtime: {error}"))),
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure);
            failure.exit_code()
        }
    }
}

async fn run(cli: Cli, output: &Output) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Serve => serve::run(&global).await,
        Command::Simulate(args) => simulate::run(&global, args, output).await,
        Command::Demo(args) => demo::run(global.verbose, args, output).await,
        Command::Check => check::run(&global, output),
        Command::Doctor => doctor::run(&global, output).await,
        Command::Health(args) => health::run(&global, &args, output).await,
        Command::Secret(args) => secret::run(&args, output),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
        Command::Operations(args) => operations::run(&open(&global).await?, args, output).await,
        Command::Events(args) => events::run(&open(&global).await?, args, output).await,
        Command::Queue(args) => queue::run(&open(&global).await?, args, output).await,
        Command::Alerts(args) => alerts::run(&open(&global).await?, args, output).await,
        Command::Effects(args) => effects::run(&open(&global).await?, args, output).await,
        Command::Prune(args) => prune::run(&open(&global).await?, &args, output).await,
        Command::Backup(args) => {
            backup::run(&load::for_client(&global)?.settings, &args, output).await
        }
        Command::Restore(args) => {
            restore::run(&load::for_client(&global)?.settings, &args, output).await
        }
        Command::Webhooks(args) => {
            webhooks::run(load::for_client(&global)?.settings, args, output).await
        }
    }
}

async fn open(global: &args::Global) -> Result<Access, Failure> {
    let loaded = load::for_client(global)?;
    Access::open(loaded.settings).await
}
