//! The door's receiver is the use case that commits.
//!
//! Whatever keeps the store from committing is the same to the sender: nothing was stored, try again.
//! What differs is when that makes sense, and what the operator reads.

use std::time::Duration;

use async_trait::async_trait;

use super::hooks::{Receive, ReceiveAnswer, Unavailable};
use crate::domain::event::Verdict;
use crate::receive::Receiver;
use crate::store::StoreError;
use crate::verify::Verified;

/// A queue drains in moments.
const WHEN_BUSY: Duration = Duration::from_secs(2);
/// A full disk or a restart takes a while.
const WHEN_BROKEN: Duration = Duration::from_secs(30);

#[async_trait]
impl Receive for Receiver {
    async fn receive(&self, delivery: Verified) -> Result<ReceiveAnswer, Unavailable> {
        match Self::receive(self, delivery).await {
            Ok(received) => Ok(received.verdict.into()),
            Err(StoreError::Busy | StoreError::Locked) => Err(Unavailable {
                retry_after: WHEN_BUSY,
            }),
            Err(error) => {
                tracing::error!(%error, "a delivery could not be stored");
                Err(Unavailable {
                    retry_after: WHEN_BROKEN,
                })
            }
        }
    }
}

impl From<Verdict> for ReceiveAnswer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Accepted => Self::Accepted,
            Verdict::Ignored => Self::Ignored,
            Verdict::Duplicate => Self::Duplicate,
        }
    }
}
