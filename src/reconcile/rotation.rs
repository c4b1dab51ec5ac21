//! Rotating the signing secret so that no true delivery is ever refused.
//!
//! | step | on disk | the door |
//! |---|---|---|
//! | 1 | `rotating` | a signature by no known secret is answered 503, so the provider repeats it |
//! | 2 | `rotating` | the provider is asked, with 24 hours of overlap |
//! | 3 | the new secret, `proving`; the old ones end in 24 hours | the same |
//! | 4 | | old and new are accepted |
//! | 5 | `proving` | pings, until a delivery was signed with the new one |
//! | 6 | no rotation | a signature by no known secret is 401 again; old ones end when their day is over |
//!
//! Races: a crash in 1 or 2 leaves `rotating`, and nobody knows whether the provider answered; the
//! next start rotates again, with the overlap, never at once: the secret before is still good then,
//! and one that came with the lost answer ends by itself. A crash in 3 leaves the file before or the
//! file after. A crash in 5 pings again. Two who rotate at once wait for one another here; a command
//! beside a running service holds the store's lock or goes through the service.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::base::clock::{Clock, Timestamp};
use crate::domain::fault::Fault;
use crate::gemini::webhooks::{Revocation, WebhookApi, WebhookId};
use crate::verify::secret_file::{Kept, Rotating, Stage};
use crate::verify::{SecretFile, SecretFileError, SecretSet};

/// How long the provider signs with the old secret, too.
pub const OVERLAP: Duration = Duration::from_hours(24);

/// Why a rotation did not begin, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The file of secrets cannot be used.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// One is open already.
    #[error("a rotation is in progress already")]
    Open,
    /// The provider refused; nothing has changed.
    #[error("the provider did not rotate the secret: {0}")]
    Refused(Fault),
    /// Nobody knows whether the provider did; it is asked again.
    #[error("the provider's answer did not come, so it is asked again by the service ({0})")]
    Unanswered(Fault),
}

/// Where a rotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// None is open.
    None,
    /// The provider was asked and did not answer.
    Unanswered {
        /// Since when.
        since: Timestamp,
    },
    /// The new secret is accepted; no delivery has brought it yet. It was pinged for.
    Proving {
        /// Since when.
        since: Timestamp,
    },
    /// A delivery was signed with the new secret.
    Proven,
}

/// Rotates, and goes on with what was left open.
#[derive(Debug)]
pub struct Rotation {
    file: SecretFile,
    set: SecretSet,
    api: Arc<dyn WebhookApi>,
    clock: Arc<dyn Clock>,
    turn: Mutex<()>,
}

impl Rotation {
    /// Rotates the secrets in `file`, which `set` accepts.
    pub fn new(
        file: SecretFile,
        set: SecretSet,
        api: Arc<dyn WebhookApi>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            file,
            set,
            api,
            clock,
            turn: Mutex::default(),
        }
    }

    /// The file of secrets.
    pub const fn file(&self) -> &SecretFile {
        &self.file
    }

    /// Steps 1 to 4.
    ///
    /// # Errors
    /// See [`RotationError`].
    pub async fn begin(&self, id: &WebhookId) -> Result<(), RotationError> {
        let _turn = self.turn.lock().await;
        if self.file.load()?.rotation.is_some() {
            return Err(RotationError::Open);
        }
        self.announce(id)?;
        match self.ask(id).await {
            Err(RotationError::Unanswered(fault)) if is_refusal(&fault) => {
                let kept = self.file.update(|kept| kept.rotation = None)?;
                self.set.replace(&kept);
                Err(RotationError::Refused(fault))
            }
            end => end,
        }
    }

    /// Takes in what the file says, and goes on with whatever is open in it. Old secrets whose day
    /// is over are dropped.
    ///
    /// # Errors
    /// The file cannot be used. What the provider says is in the answer.
    pub async fn step(&self) -> Result<Progress, RotationError> {
        let _turn = self.turn.lock().await;
        let (kept, _) = self.set.take_in(&self.file)?;
        let Some(open) = kept.rotation.clone() else {
            self.drop_expired(&kept)?;
            return Ok(Progress::None);
        };
        let Ok(id) = open.webhook.parse::<WebhookId>() else {
            return Err(SecretFileError::Unreadable {
                path: self.file.path().display().to_string(),
            }
            .into());
        };
        match open.stage {
            Stage::Rotating => match self.ask(&id).await {
                Ok(()) => Ok(Progress::Proving {
                    since: self.clock.now(),
                }),
                Err(RotationError::Unanswered(fault)) => {
                    tracing::warn!(%fault, "an interrupted rotation could not go on yet");
                    Ok(Progress::Unanswered { since: open.since })
                }
                Err(error) => Err(error),
            },
            Stage::Proving => self.prove(&kept, &open, &id).await,
        }
    }

    fn announce(&self, id: &WebhookId) -> Result<(), RotationError> {
        let rotating = Rotating {
            webhook: id.as_str().to_owned(),
            stage: Stage::Rotating,
            since: self.clock.now(),
        };
        let kept = self.file.update(|kept| kept.rotation = Some(rotating))?;
        self.set.replace(&kept);
        Ok(())
    }

    /// Steps 2 to 4.
    async fn ask(&self, id: &WebhookId) -> Result<(), RotationError> {
        let asked = self.api.rotate(id, Revocation::AfterDay).await;
        let secret = asked.map_err(RotationError::Unanswered)?;
        let now = self.clock.now();
        let kept = self.file.update(|kept| {
            for old in kept.secrets.iter_mut().filter(|s| s.webhook == id.as_str()) {
                let end = now.after(OVERLAP);
                old.not_after = Some(old.not_after.map_or(end, |at| at.min(end)));
            }
            kept.add(secret, id.as_str(), now);
            kept.rotation = Some(Rotating {
                webhook: id.as_str().to_owned(),
                stage: Stage::Proving,
                since: now,
            });
        })?;
        self.set.replace(&kept);
        tracing::info!(webhook = %id, "the signing secret was rotated; old and new are accepted");
        Ok(())
    }

    async fn prove(
        &self,
        kept: &Kept,
        open: &Rotating,
        id: &WebhookId,
    ) -> Result<Progress, RotationError> {
        let newest = kept.secrets.iter().rfind(|s| s.webhook == id.as_str());
        if newest.is_some_and(|s| self.set.verified_at(&s.secret).is_some()) {
            let kept = self.file.update(|kept| kept.rotation = None)?;
            self.set.replace(&kept);
            tracing::info!(webhook = %id, "a delivery was signed with the new secret");
            return Ok(Progress::Proven);
        }
        if let Err(fault) = self.api.ping(id).await {
            tracing::warn!(%fault, webhook = %id, "could not ping for the new secret");
        }
        Ok(Progress::Proving { since: open.since })
    }

    fn drop_expired(&self, kept: &Kept) -> Result<(), RotationError> {
        let now = self.clock.now();
        let over = |end: Option<Timestamp>| end.is_some_and(|end| end <= now);
        if kept.secrets.iter().any(|s| over(s.not_after)) {
            let kept = self
                .file
                .update(|kept| kept.secrets.retain(|s| !over(s.not_after)))?;
            self.set.replace(&kept);
            tracing::info!("a signing secret from before a rotation is not accepted any more");
        }
        Ok(())
    }
}

/// Whether the provider certainly did nothing.
const fn is_refusal(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::KeyRefused { .. }
            | Fault::Forbidden { .. }
            | Fault::NotFound
            | Fault::Rejected { .. }
            | Fault::Throttled { .. }
    )
}
