//! The file of signing secrets that the provider showed once.
//!
//! Problem: the answer to create and rotate is the only copy of a secret there will ever be. It must
//! be on disk, readable by nobody else, before anything relies on it; and a rotation that dies
//! half-way must be found as what it is.
//!
//! Design: one JSON file, mode 0600, replaced whole by rename and synced with its directory, so a
//! reader sees the old text or the new one. A file that others may read is refused, not believed.
//! Beside the secrets it holds the rotation in progress.
//!
//! Race: the service and a command may change it at once; [`SecretFile::update`] reads and writes
//! under a lock on a file beside it, which the kernel drops when its holder dies.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::signing_secret::SigningSecret;
use crate::base::clock::Timestamp;
use crate::base::secret::Secret;

/// Largest file read, bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// Why the file cannot be used. The texts never repeat what is in it.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// The operating system refuses.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Somebody else may read or write it.
    #[error("{path} may be read or written by others; make it yours alone (chmod 600)")]
    Open {
        /// The file.
        path: String,
    },
    /// It is not what this program writes.
    #[error("{path} is not a file of signing secrets")]
    Unreadable {
        /// The file.
        path: String,
    },
}

/// What the file holds.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// The secrets, oldest first.
    pub secrets: Vec<KeptSecret>,
    /// The rotation in progress.
    pub rotation: Option<Rotating>,
}

/// One signing secret.
#[derive(Debug, Clone)]
pub struct KeptSecret {
    /// The secret, as it was issued.
    pub secret: Secret,
    /// The webhook it belongs to.
    pub webhook: String,
    /// Since when it is accepted.
    pub since: Timestamp,
    /// When it stops being accepted.
    pub not_after: Option<Timestamp>,
}

/// How far a rotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The provider is being asked; whether it has answered is not known.
    Rotating,
    /// The new secret is in the file; no delivery has verified with it yet.
    Proving,
}

/// A rotation in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotating {
    /// The webhook.
    pub webhook: String,
    /// How far it is.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
}

impl Kept {
    /// Adds a secret, once.
    pub fn add(&mut self, secret: Secret, webhook: &str, since: Timestamp) {
        let known = |kept: &KeptSecret| kept.secret.expose() == secret.expose();
        if !self.secrets.iter().any(known) {
            self.secrets.push(KeptSecret {
                secret,
                webhook: webhook.to_owned(),
                since,
                not_after: None,
            });
        }
    }
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    secrets: Vec<WrittenSecret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rotation: Option<Rotating>,
}

#[derive(Serialize, Deserialize)]
struct WrittenSecret {
    secret: String,
    webhook: String,
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<Timestamp>,
}

/// The one written version.
const VERSION: u32 = 1;

/// The file named by `subscription.secrets_file`.
#[derive(Debug, Clone)]
pub struct SecretFile {
    path: PathBuf,
}

impl SecretFile {
    /// The file at `path`, which need not exist yet.
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds: nothing when it does not exist.
    ///
    /// # Errors
    /// It cannot be read, may be read by others, or holds something else.
    pub fn load(&self) -> Result<Kept, SecretFileError> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Kept::default()),
            Err(source) => return Err(self.io("open", source)),
            Ok(file) => file,
        };
        let mode = file.metadata().map_err(|e| self.io("look at", e))?;
        if mode.permissions().mode() & 0o077 != 0 {
            return Err(SecretFileError::Open { path: self.shown() });
        }
        let mut text = String::new();
        file.take(MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(|e| self.io("read", e))?;
        let written: Option<Written> = serde_json::from_str(&text).ok();
        let unreadable = || SecretFileError::Unreadable { path: self.shown() };
        let written = written.filter(|w| w.version == VERSION);
        let written = written.ok_or_else(unreadable)?;
        let mut kept = Kept {
            secrets: Vec::with_capacity(written.secrets.len()),
            rotation: written.rotation,
        };
        for one in written.secrets {
            let secret = Secret::new(one.secret);
            SigningSecret::parse(&secret).map_err(|_| unreadable())?;
            kept.secrets.push(KeptSecret {
                secret,
                webhook: one.webhook,
                since: one.since,
                not_after: one.not_after,
            });
        }
        Ok(kept)
    }

    /// Changes what it holds, and answers what that is then. Nothing else changes it meanwhile.
    ///
    /// # Errors
    /// As [`SecretFile::load`], or it cannot be written; then it is what it was.
    pub fn update(&self, change: impl FnOnce(&mut Kept)) -> Result<Kept, SecretFileError> {
        let directory = self.directory();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|e| self.io("make the directory of", e))?;
        let _lock = self.lock()?;
        let mut kept = self.load()?;
        change(&mut kept);
        self.replace(&kept)?;
        Ok(kept)
    }

    fn replace(&self, kept: &Kept) -> Result<(), SecretFileError> {
        let written = Written {
            version: VERSION,
            secrets: kept
                .secrets
                .iter()
                .map(|one| WrittenSecret {
                    secret: one.secret.expose().to_owned(),
                    webhook: one.webhook.clone(),
                    since: one.since,
                    not_after: one.not_after,
                })
                .collect(),
            rotation: kept.rotation.clone(),
        };
        let write = || -> std::io::Result<()> {
            let mut text = serde_json::to_vec_pretty(&written)?;
            text.push(b'\n');
            // Mode 0600 from the start: the text is never there for others.
            let mut file = tempfile::NamedTempFile::new_in(self.directory())?;
            file.write_all(&text)?;
            file.as_file().sync_all()?;
            file.persist(&self.path)?;
            File::open(self.directory())?.sync_all()
        };
        write().map_err(|e| self.io("write", e))
    }

    /// Waits for the lock; it ends with the returned file.
    fn lock(&self) -> Result<File, SecretFileError> {
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(|e| self.io("lock", e))?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|e| self.io("lock", e.into()))?;
        Ok(file)
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn io(&self, what: &'static str, source: std::io::Error) -> SecretFileError {
        SecretFileError::Io {
            what,
            path: self.shown(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn what_is_written_is_read_again_and_is_nobody_else_s() {
        let dir = tempfile::tempdir().unwrap();
        let file = SecretFile::new(dir.path().join("deep/er/secrets.json"));
        assert!(file.load().unwrap().secrets.is_empty());
        let rotation = Rotating {
            webhook: "w".to_owned(),
            stage: Stage::Rotating,
            since: at(5),
        };
        file.update(|kept| {
            kept.add(Secret::new(SECRET), "w", at(1));
            kept.add(Secret::new(SECRET), "w", at(2));
            kept.rotation = Some(rotation.clone());
        })
        .unwrap();
        let kept = file.load().unwrap();
        assert_eq!(kept.secrets.len(), 1);
        assert_eq!(kept.secrets[0].secret.expose(), SECRET);
        assert_eq!(
            (kept.secrets[0].since, kept.rotation.clone()),
            (at(1), Some(rotation))
        );
        assert!(!format!("{kept:?}").contains("MfKQ"));
        let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::set_permissions(file.path(), Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(file.load(), Err(SecretFileError::Open { .. })));
    }

    #[test]
    fn anything_else_is_refused_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        for text in [
            "",
            "{}",
            r#"{"version":2,"secrets":[]}"#,
            SECRET,
            r#"{"version":1,"secrets":[{"secret":"short","webhook":"w","since":"2026-11-30T12:00:00Z"}]}"#,
        ] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let file = SecretFile::new(path.clone());
            let refused = file.update(|kept| kept.rotation = None).unwrap_err();
            assert!(
                matches!(refused, SecretFileError::Unreadable { .. }),
                "{text}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
