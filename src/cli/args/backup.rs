//! The grammar of `backup`, `restore`, `prune` and `operations import`.

use std::path::PathBuf;

use clap::Args;

use crate::domain::operation::JobKind;

#[derive(Debug, Args)]
pub(in crate::cli) struct Backup {
    /// A file to make, or a directory to put a dated one into; `store.backup_directory` when not
    /// given
    #[arg(value_name = "FILE|DIR")]
    pub(in crate::cli) to: Option<PathBuf>,
    /// Put the new one in the place of an existing file
    #[arg(long)]
    pub(in crate::cli) overwrite: bool,
    /// Of the dated files in the directory keep the newest N and remove the others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) keep: Option<u32>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Restore {
    /// What `hookledger backup` made
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
    /// Send effects as if nothing had happened: those that went out after the backup was taken go
    /// out again, with the same keys
    #[arg(long)]
    pub(in crate::cli) run_effects: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Prune {
    /// Only say what would go
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Import {
    /// What they are for; without it they are `unregistered`, as if adopted
    #[arg(long)]
    pub(in crate::cli) job_kind: Option<JobKind>,
    /// Send the effects of those that have ended already, too
    #[arg(long)]
    pub(in crate::cli) run_effects: bool,
    /// Only say what would be new
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}
