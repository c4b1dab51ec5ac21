//! Floor 3: side effects and alerts going out.
//!
//! Problem: an effect leaves this machine, so nobody can make it happen exactly once. What can be
//! promised is that every attempt ends in one honest word, and that every attempt carries the same
//! key and the same bytes.
//!
//! Design: [`Effect`] is the seam. The outbox hands over a [`Message`] (stored payload, stable key)
//! and gets a [`Delivery`] back; it owns leases, back-off, policy and age, this room owns none of
//! them. An effect never fails in another way: what it cannot classify as surely-not-happened it
//! calls ambiguous.
//!
//! The destination is looked up by the effect's name when it is sent, so a URL corrected in the
//! configuration also serves what was planned before. The payload is the one stored when the
//! operation settled, byte for byte.
//!
//! Each effect keeps its own time limit ([`Effect::timeout`]); the caller's lease only has to be
//! longer. An attempt that is dropped half-way (a hard stop) leaves nothing running: connections
//! close, process groups are killed, temporary files are removed. The outbox finds such a row in
//! `sending` and treats it as ambiguous.

mod command;
pub mod guard;
mod http;
pub mod payload;
pub mod plan;
mod post;
mod results;
pub mod signing;
mod slack;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::base::clock::Timestamp;
use crate::config::settings::{self, Action};
use crate::domain::effect::{Delivery, EffectRule};
use crate::domain::operation::OperationName;
use crate::gemini::GeminiApi;

/// One attempt to deliver one effect.
#[derive(Debug, Clone)]
pub struct Message {
    /// The idempotency key: the same in every attempt, legal as a `webhook-id`.
    pub key: String,
    /// The effect's configured name.
    pub effect: String,
    /// The operation it is about; an alert may be about none.
    pub operation: Option<OperationName>,
    /// The stored JSON body, sent as it is.
    pub payload: Bytes,
    /// Which attempt this is; the first is 1.
    pub attempt: u32,
    /// Wall time of this attempt.
    pub now: Timestamp,
    /// The place of this attempt in a trace, in the words of W3C Trace Context.
    pub traceparent: Option<String>,
}

/// Something that can be made to happen outside.
#[async_trait]
pub trait Effect: Send + Sync + fmt::Debug {
    /// Makes one attempt. Ends within [`Effect::timeout`] and a little.
    async fn deliver(&self, message: &Message) -> Delivery;

    /// The time limit of one attempt.
    fn timeout(&self) -> Duration;

    /// The word for `kind` in the configuration.
    fn kind(&self) -> &'static str;
}

/// A configured effect that cannot work. Names the effect and the key, never a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("effects: {effect}: {problem}")]
pub struct BuildError {
    /// The effect's name.
    pub effect: String,
    /// What is wrong, in chosen words.
    pub problem: String,
}

/// All configured effects, by name.
#[derive(Debug, Default)]
pub struct Registry {
    effects: BTreeMap<String, Arc<dyn Effect>>,
    rules: Vec<EffectRule>,
}

impl Registry {
    /// Builds every configured effect. The results effect downloads through `gemini`.
    pub fn build(
        configured: &[settings::Effect],
        gemini: &Arc<dyn GeminiApi>,
    ) -> Result<Self, BuildError> {
        let mut registry = Self::default();
        for one in configured {
            let effect = build_one(one, gemini).map_err(|problem| BuildError {
                effect: one.rule.name.clone(),
                problem,
            })?;
            registry.add(one.rule.clone(), effect)?;
        }
        Ok(registry)
    }

    /// Adds an effect that was built elsewhere, under its rule's name.
    pub fn add(&mut self, rule: EffectRule, effect: Arc<dyn Effect>) -> Result<(), BuildError> {
        if self.effects.contains_key(&rule.name) {
            return Err(BuildError {
                effect: rule.name,
                problem: "there are two effects of this name".to_owned(),
            });
        }
        self.effects.insert(rule.name.clone(), effect);
        self.rules.push(rule);
        Ok(())
    }

    /// The effect of that name, if it is still configured.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Effect>> {
        self.effects.get(name).cloned()
    }

    /// The rules of all effects, in the order of the configuration.
    pub fn rules(&self) -> &[EffectRule] {
        &self.rules
    }
}

fn build_one(
    effect: &settings::Effect,
    gemini: &Arc<dyn GeminiApi>,
) -> Result<Arc<dyn Effect>, String> {
    let timeout = effect.timeout;
    Ok(match &effect.action {
        Action::Http {
            url,
            secret,
            allow_private,
            headers,
        } => Arc::new(http::Http::new(
            url.clone(),
            secret.as_ref(),
            headers,
            *allow_private,
            timeout,
        )?),
        Action::Results { directory } => Arc::new(results::Results::new(
            directory.clone(),
            Arc::clone(gemini),
            timeout,
        )),
        Action::Command { argv } => Arc::new(command::Command::new(argv, timeout)?),
        Action::Slack {
            webhook_url,
            allow_private,
        } => Arc::new(slack::Slack::new(webhook_url, *allow_private, timeout)?),
    })
}
