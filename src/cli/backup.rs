//! `backup`: a copy of the ledger, also of one in use.
//!
//! It reads the file beside whoever writes it and takes no lock, so it never goes through the admin
//! API. In a directory the files are named by the instant at which they were begun; only files of
//! exactly such a name are ever counted or removed.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::Backup;
use super::failure::Failure;
use super::output::{Output, fields};
use super::progress::Progress;
use crate::base::clock::{Clock as _, SystemClock, Timestamp};
use crate::config::Settings;
use crate::store::{BackupError, OpenError, back_up, clear_remains};

const BEFORE: &str = "hookledger-";
const AFTER: &str = ".db";
/// What an unfinished one has behind its name.
const UNFINISHED: &str = ".tmp";

pub(super) async fn run(
    settings: &Settings,
    args: &Backup,
    output: &Output,
) -> Result<(), Failure> {
    let configured = settings.store.backup_directory.as_ref();
    let to = args.to.as_ref().or(configured).ok_or_else(|| {
        Failure::usage(
            "where to? Name a file or a directory, or set store.backup_directory \
             (HOOKLEDGER__STORE__BACKUP_DIRECTORY)",
        )
    })?;
    let dated = to.is_dir();
    if !dated && (args.to.is_none() || args.keep.is_some()) {
        return Err(Failure::usage(format!(
            "{} is no directory; make it first",
            to.display()
        )));
    }
    let file = if dated {
        clear(to)?;
        to.join(name_at(SystemClock::new().now()))
    } else {
        to.clone()
    };
    let told = Progress::of_bytes("copied");
    let bytes = back_up(&settings.store.path, &file, args.overwrite, told).await?;
    let removed = match args.keep {
        Some(keep) => thin_out(to, keep, &file)?,
        None => Vec::new(),
    };
    let document = json!({
        "file": file.display().to_string(),
        "of": settings.store.path.display().to_string(),
        "bytes": bytes,
        "removed": removed,
    });
    output.answer(&document, |_| {
        fields(&document, &["file", "of", "bytes", "removed"])
    })
}

/// `hookledger-20261130T162151Z.db`
fn name_at(at: Timestamp) -> String {
    let at = at.to_string();
    let second = at.split('.').next().unwrap_or(&at);
    let digits: String = second.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    format!("{BEFORE}{digits}Z{AFTER}")
}

fn is_dated(name: &str) -> bool {
    let middle = name
        .strip_prefix(BEFORE)
        .and_then(|n| n.strip_suffix(AFTER));
    middle.is_some_and(|at| {
        at.len() == "20261130T162151Z".len()
            && at.bytes().enumerate().all(|(n, byte)| match n {
                8 => byte == b'T',
                15 => byte == b'Z',
                _ => byte.is_ascii_digit(),
            })
    })
}

/// The dated files of a directory, oldest first, each with `end` behind its name.
fn dated(directory: &Path, end: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if let Some(name) = name.strip_suffix(end).filter(|name| is_dated(name)) {
            found.push(directory.join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// Removes what backups that were cut off have left.
fn clear(directory: &Path) -> Result<(), Failure> {
    for unfinished in dated(directory, UNFINISHED)? {
        clear_remains(&unfinished)?;
    }
    Ok(())
}

/// Removes all but the newest `keep`. `made` is one of those, whatever its name says: the clock may
/// have been set back since the others were made.
fn thin_out(directory: &Path, keep: u32, made: &Path) -> Result<Vec<String>, Failure> {
    let mut others = dated(directory, "")?;
    others.retain(|other| other != made);
    let stay = usize::try_from(keep)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let over = others.len().saturating_sub(stay);
    let mut removed = Vec::new();
    for old in others.into_iter().take(over) {
        std::fs::remove_file(&old)?;
        removed.push(old.display().to_string());
    }
    Ok(removed)
}

/// An error about the ledger; of a damaged one it names the newest backup there is to restore.
pub(super) fn with_backup(error: OpenError, settings: &Settings) -> Failure {
    let damaged = matches!(error, OpenError::Damaged { .. });
    let failure = Failure::from(error);
    let newest = settings
        .store
        .backup_directory
        .as_ref()
        .filter(|_| damaged)
        .and_then(|directory| dated(directory, "").ok()?.pop());
    match newest {
        Some(newest) => Failure::failed(format!(
            "{failure}; the newest is `hookledger restore {}`",
            newest.display()
        )),
        None => failure,
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Source(error @ OpenError::InUse { .. }) => {
                Self::Conflict(error.to_string())
            }
            BackupError::Source(error) => error.into(),
            BackupError::Exists { .. } | BackupError::InProgress { .. } => {
                Self::Conflict(error.to_string())
            }
            BackupError::Itself { .. } | BackupError::Unusable { .. } => {
                Self::Usage(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_just_made_stays_whatever_the_clock_says() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("hookledger-20250101T000000Z.db");
        let later = [
            "hookledger-20261130T162151Z.db",
            "hookledger-20261130T162152Z.db",
        ];
        for path in later
            .iter()
            .map(|name| dir.path().join(name))
            .chain([made.clone()])
        {
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(thin_out(dir.path(), 2, &made).unwrap().len(), 1);
        let left = dated(dir.path(), "").unwrap();
        assert_eq!(left, [made, dir.path().join(later[1])]);
    }

    #[test]
    fn only_names_of_ours_are_counted() {
        let name = name_at(Timestamp::from_millis(1_796_055_711_123));
        assert_eq!(name, "hookledger-20261130T162151Z.db");
        assert!(is_dated(&name));
        for other in [
            "hookledger.db",
            "hookledger-20261130T162151Z.db.tmp",
            "hookledger-20261130T162151.db",
            "hookledger-20261130X162151Z.db",
            "hookledger-mine-of-today12Z.db",
            "other-20261130T162151Z.db",
        ] {
            assert!(!is_dated(other), "{other}");
        }
    }
}
