//! The canary: a ping that the provider is asked for must come back as a captured delivery, through DNS,
//! TLS, proxy and commit, within its bound.
//!
//! Races: the instant is taken before the ping, for the delivery may be here before the answer is. A
//! ping that was waited for at a crash is forgotten, and the next one is sent.

use std::time::Duration;

use super::{Memory, SOURCE, Subscription, Turn};
use crate::base::clock::Timestamp;
use crate::gemini::webhooks::WebhookId;
use crate::store::StoreError;
use crate::telemetry::metrics;

/// The subject of the alert about pings that do not come back.
pub const CANARY_ALERT: &str = "subscription/canary";

/// Where it is.
#[derive(Debug)]
pub(super) enum Canary {
    Rests {
        until: Duration,
    },
    Flies {
        sent: Duration,
        at: Timestamp,
        id: WebhookId,
    },
}

impl Default for Canary {
    fn default() -> Self {
        Self::Rests {
            until: Duration::ZERO,
        }
    }
}

impl Subscription {
    /// Sends it when its time has come, and looks whether it is back.
    pub(super) async fn fly(&self, memory: &mut Memory, turn: &mut Turn) -> Result<(), StoreError> {
        let Some(interval) = self.ping_interval else {
            return Ok(());
        };
        let now = self.clock.monotonic();
        match &memory.canary {
            Canary::Flies { sent, at, id } => {
                let sent = *sent;
                let took = now.saturating_sub(sent);
                let came = self.store.pinged_since(SOURCE, id.as_str(), *at).await?;
                let word = if came {
                    metrics::canary_took(took);
                    self.recover(CANARY_ALERT).await?;
                    "arrived"
                } else if now >= sent + self.ping_bound {
                    let summary = format!(
                        "a ping of the webhook has not come back within {}: deliveries may not \
                         reach this service",
                        humantime::format_duration(self.ping_bound)
                    );
                    self.open(CANARY_ALERT, summary).await?;
                    "missed"
                } else {
                    return Ok(());
                };
                metrics::canary(word);
                turn.canary = Some(word);
                self.saw(turn, came.then_some(took));
                memory.canary = Canary::Rests {
                    until: sent + interval,
                };
            }
            Canary::Rests { until } => {
                let Some(id) = memory.delivers.clone().filter(|_| now >= *until) else {
                    return Ok(());
                };
                // Taken before the ping: the delivery may be here before the answer is.
                let at = self.clock.now();
                let word = match self.api.ping(&id).await {
                    Ok(()) => {
                        memory.canary = Canary::Flies { sent: now, at, id };
                        "sent"
                    }
                    Err(fault) => {
                        tracing::warn!(%fault, "could not ping the webhook");
                        memory.canary = Canary::Rests {
                            until: now + interval,
                        };
                        "failed"
                    }
                };
                metrics::canary(word);
                turn.canary = Some(word);
                self.saw(turn, None);
            }
        }
        Ok(())
    }
}
