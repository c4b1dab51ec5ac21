//! The load harness: what sends, what is sent to, and what looks at a store from inside.
//!
//! `benches/run` starts each as a process of its own. Contestants print `listening on ADDRESS` once
//! they accept; everything that measures prints one JSON document and ends.

mod bare;
mod connection;
mod delivery;
mod drive;
mod figures;
mod gets;
mod inside;
mod null;
mod pace;
mod print;
mod sweep;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "The load harness of hookledger; benches/run runs it")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sends signed deliveries, as fast as they are answered or at a rate.
    Drive(drive::Drive),
    /// The service's door with nothing behind it.
    Null(null::Null),
    /// hyper, which reads the body and answers 200: also the receiver of effects.
    Bare {
        /// Where to listen.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Asks the API for operations with the service's own client.
    Gets(gets::Gets),
    /// Times a claim, a reconcile turn, lists and pruning on a file nobody else has open.
    Inside(inside::Inside),
    /// Lets a file live through twice its retention.
    Lifetimes {
        /// A file that is not there yet.
        #[arg(long)]
        db: PathBuf,
        /// Deliveries a day.
        #[arg(long, default_value_t = 2000)]
        daily: u32,
    },
}

fn main() -> ExitCode {
    let done = match Line::parse().command {
        Command::Drive(drive) => drive::run(drive),
        Command::Null(null) => null::run(&null),
        Command::Bare { listen } => bare::run(listen),
        Command::Gets(gets) => gets::run(&gets),
        Command::Inside(inside) => inside::run(inside),
        Command::Lifetimes { db, daily } => sweep::lifetimes(db, daily),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}
