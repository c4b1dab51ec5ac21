//! The grammar of the command line.
//!
//! Values that may be secrets, or hold one, are taken as plain text here and parsed later: clap
//! repeats a value that it cannot parse.

mod backup;
mod filters;
mod simulate;
mod webhooks;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use uuid::Uuid;

use crate::domain::operation::{JobKind, OperationName};

pub(super) use backup::{Backup, Import, Prune, Restore};
pub(super) use filters::{EffectFlags, EventFlags, EventWords, OperationFlags, Query, QueueFlags};
pub(super) use simulate::{DynamicSigning, Simulate};
pub(super) use webhooks::{WebhookState, Webhooks};

/// Never lose the end of a Gemini API long-running job.
#[derive(Debug, Parser)]
#[command(
    name = "hookledger",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 not found, \
                        4 conflict, 5 the service cannot be reached"
)]
pub struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct Global {
    /// Configuration file (TOML), over the defaults and under the environment
    #[arg(long, global = true, value_name = "FILE", env = "HOOKLEDGER_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Set one configuration key, over everything else; may be repeated
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Log more to standard error; twice for every detail
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the service
    Serve,
    /// Watch five operations end, against the simulator and a temporary database; reads no
    /// configuration
    Demo(super::demo::Args),
    /// Run a fake Gemini API to try the service against
    Simulate(Simulate),
    /// Say everything that is wrong with the configuration, or show it as it is in force
    Check,
    /// Look for what is wrong with configuration, disk and database file, and for promises the ledger
    /// breaks; changes nothing, exits 0 when all is well, else 1
    Doctor,
    /// Ask the running service how it is; exits 0 when it is well, else 1
    Health(Health),
    /// The ledger: register, reserve, list, show and retry operations
    Operations(Nested<Operations>),
    /// Captured deliveries: list, show, print as curl and replay
    Events(Nested<Events>),
    /// Work items: list them and put dead ones back
    Queue(Nested<Queue>),
    /// The outbox: list effects, send them again or decide about them
    Effects(Nested<Effects>),
    /// Alerts: list the open ones
    Alerts(Nested<Alerts>),
    /// The provider's webhooks: make, change, ping and rotate them, or match them to the
    /// configuration
    Webhooks(Nested<Webhooks>),
    /// Copy the ledger while it is in use
    Backup(Backup),
    /// Put a backup in the place of the ledger; the service must not run
    Restore(Restore),
    /// Remove what is over now instead of at the service's next turn
    Prune(Prune),
    /// Make secrets
    Secret(Nested<Secret>),
    /// Print what a shell needs to complete commands
    Completions(Completions),
    /// Print the manual page
    Man(Man),
}

/// A noun with verbs.
#[derive(Debug, Args)]
pub(super) struct Nested<T: Subcommand> {
    #[command(subcommand)]
    pub(super) verb: T,
}

#[derive(Debug, Args)]
pub(super) struct Health {
    /// Only whether the process turns
    #[arg(long, conflicts_with = "ready")]
    pub(super) live: bool,
    /// Only whether it can take deliveries
    #[arg(long)]
    pub(super) ready: bool,
    /// Base URL to ask instead of the configured public listener
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub(super) struct PageArgs {
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(super) limit: u32,
    /// Where to go on, as the page before said
    #[arg(long)]
    pub(super) cursor: Option<String>,
    #[command(flatten)]
    pub(super) watch: Watch,
}

#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Watch {
    /// Ask again and again, every two seconds or as often as said, until Ctrl-C
    #[arg(
        long = "watch",
        value_name = "PAUSE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = humantime::parse_duration
    )]
    pub(super) every: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// For which shell
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// Write a page of each command into this directory instead
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Operations {
    /// Put a submitted job into the ledger
    Register {
        /// Its name at the provider, as in batches/ID
        #[arg(long)]
        name: OperationName,
        /// What it is for; effects are chosen by it
        #[arg(long)]
        job_kind: JobKind,
        /// JSON object handed to the effects
        #[arg(long, value_name = "JSON")]
        user_metadata: Option<String>,
        /// The reservation that this job was submitted under
        #[arg(long, value_name = "ID", conflicts_with = "user_metadata", value_parser = reservation_id)]
        reservation: Option<Uuid>,
    },
    /// Make a record before the job is submitted, with a webhook URL of its own
    Reserve {
        /// What the job is for
        #[arg(long)]
        job_kind: JobKind,
        /// JSON object handed to the effects
        #[arg(long, value_name = "JSON")]
        user_metadata: Option<String>,
    },
    /// Take the provider's list of batches over; videos and interactions have no list
    Import(Import),
    /// List operations, newest first
    List {
        #[command(flatten)]
        flags: OperationFlags,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one with its history and its effects
    Show {
        /// Name or ledger id
        which: Which,
        #[command(flatten)]
        watch: Watch,
    },
    /// Look at an open one now; send the dead and held effects of a settled one again
    Retry {
        /// Name or ledger id
        which: Which,
    },
}

/// An operation, named or by its ledger id.
#[derive(Debug, Clone)]
pub(super) enum Which {
    Id(Uuid),
    Name(OperationName),
}

impl std::str::FromStr for Which {
    type Err = &'static str;

    /// No name is a UUID: every name has a slash.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Uuid::try_parse(text) {
            Ok(id) => Ok(Self::Id(id)),
            Err(_) => text.parse().map(Self::Name).map_err(|_| {
                "an operation's name (batches/ID) or its ledger id, as `operations list` prints \
                 them, is wanted"
            }),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Events {
    /// List captured deliveries, newest first
    List {
        #[command(flatten)]
        flags: EventFlags,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one with its headers and its body
    Show {
        /// Event id
        #[arg(value_parser = event_id)]
        id: Uuid,
    },
    /// Print a command that sends one again, byte for byte
    Curl {
        /// Event id
        #[arg(value_parser = event_id)]
        id: Uuid,
        /// Write body and script into this directory instead
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// With a new id, time and signature, so that it is not folded as a duplicate
        #[arg(long)]
        fresh: bool,
        /// Where to send it: the service's address
        #[arg(long, value_name = "BASE")]
        url: Option<String>,
    },
    /// Put one, or all that came since a time, through the queue once more; effects are not repeated
    Replay {
        /// Event id; without one say --since
        #[arg(value_parser = event_id)]
        id: Option<Uuid>,
        #[command(flatten)]
        words: EventWords,
        /// Only count them
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum Queue {
    /// List work items, newest first
    List {
        #[command(flatten)]
        flags: QueueFlags,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Put dead items back: one, those that fit, or all
    Retry {
        /// Item id
        #[arg(value_parser = item_id)]
        id: Option<i64>,
        #[command(flatten)]
        flags: QueueFlags,
        /// Only count them
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum Alerts {
    /// List open alerts, oldest first
    List {
        #[command(flatten)]
        watch: Watch,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum Effects {
    /// List effects, newest first
    List {
        #[command(flatten)]
        flags: EffectFlags,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one
    Show {
        /// Effect id
        #[arg(value_parser = effect_id)]
        id: Uuid,
    },
    /// Send one, or all that are stuck and fit, again with the same keys
    Retry {
        /// Effect id; without one say --state dead, held or ambiguous
        #[arg(value_parser = effect_id)]
        id: Option<Uuid>,
        #[command(flatten)]
        flags: EffectFlags,
        /// Only count them
        #[arg(long)]
        dry_run: bool,
    },
    /// Decide about one that waits for a person
    Resolve {
        /// Effect id
        #[arg(value_parser = effect_id)]
        id: Uuid,
        /// What it is from now on
        #[arg(long = "as", value_name = "END")]
        end: End,
    },
}

/// A person's word on an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum End {
    /// It did arrive
    Done,
    /// It will not be sent any more
    Dead,
}

#[derive(Debug, Subcommand)]
pub(super) enum Secret {
    /// Print a fresh random secret
    New {
        /// As a Standard Webhooks signing secret
        #[arg(long)]
        whsec: bool,
    },
}

fn event_id(text: &str) -> Result<Uuid, &'static str> {
    Uuid::try_parse(text).map_err(|_| "an event id is wanted, as `events list` prints it")
}

fn effect_id(text: &str) -> Result<Uuid, &'static str> {
    Uuid::try_parse(text).map_err(|_| "an effect id is wanted, as `effects list` prints it")
}

fn reservation_id(text: &str) -> Result<Uuid, &'static str> {
    Uuid::try_parse(text).map_err(|_| "the id is wanted that `operations reserve` printed")
}

fn item_id(text: &str) -> Result<i64, &'static str> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or("an item id is wanted, a number as `queue list` prints it")
}
