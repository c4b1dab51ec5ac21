//! Secrets, read again while the service runs (SIGHUP).
//!
//! Problem: a secret is exchanged in two places, and a restart between them is a moment in which
//! true deliveries are not taken.
//!
//! Design: the whole configuration is read and checked again, as at a start. Of what it says only
//! the secrets are taken; they are put into the settings the service was started with, every part
//! is built from them, and only when all of that has succeeded is anything replaced. A set with a
//! mistake in it changes nothing. What else has changed is named, since it wants a restart.
//!
//! Races: each part is replaced whole ([`Swap`]). A delivery that was admitted by the secrets before
//! is judged by them to its end, and one that comes after by the new. The parts are not replaced in
//! one instant, but nothing judges by two of them. The file of kept secrets has its own writer, the
//! rotation; whoever takes it in reads it under the set's lock, so an older text never covers a newer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::secret::Secret;
use crate::base::swap::Swap;
use crate::config::settings::{Action, Effect};
use crate::config::{Effective, Loaded, Problems, Settings};
use crate::gemini::client::HttpGemini;
use crate::http::admin::AdminTokens;
use crate::reconcile::subscription::{self, Subscription};
use crate::telemetry::traces::Traces;
use crate::verify::{KeySource, PathTokens, SecretFile, SecretSet, Verifier};

/// The file of secrets that the provider showed once, accepted from the first delivery on.
pub(super) fn kept_secrets(
    settings: &Settings,
    verifier: &Verifier,
) -> anyhow::Result<Option<(SecretFile, SecretSet)>> {
    let path = settings.subscription.secrets_file.clone();
    let set = verifier.kept_secrets(subscription::SOURCE);
    let Some((path, set)) = path.zip(set) else {
        return Ok(None);
    };
    let file = SecretFile::new(path);
    set.replace(&file.load()?);
    Ok(Some((file, set)))
}

/// Everything the door accepts.
pub(super) fn verifier(settings: &Settings, keys: &Arc<dyn KeySource>) -> anyhow::Result<Verifier> {
    Verifier::new(&settings.hooks, &settings.sources, keys).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(lines.join("\n"))
    })
}

/// Everything that holds secrets and can take others.
pub(super) struct Secrets {
    /// The settings in force.
    running: Mutex<Settings>,
    verifier: Swap<Verifier>,
    keys: Arc<dyn KeySource>,
    kept: Option<(SecretFile, SecretSet)>,
    tokens: AdminTokens,
    path_tokens: Swap<Option<PathTokens>>,
    gemini: Arc<HttpGemini>,
    subscription: Option<Arc<Subscription>>,
    traces: Traces,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// What the door judges by: everything it accepts, the keys of tokens, the file of kept secrets.
type DoorSecrets = (
    Swap<Verifier>,
    Arc<dyn KeySource>,
    Option<(SecretFile, SecretSet)>,
);

impl Secrets {
    /// Over the parts of a service that runs on `settings`.
    pub(super) fn new(
        settings: &Settings,
        (verifier, keys, kept): DoorSecrets,
        (tokens, path_tokens): (AdminTokens, Swap<Option<PathTokens>>),
        gemini: Arc<HttpGemini>,
        subscription: Option<Arc<Subscription>>,
        traces: Traces,
    ) -> Self {
        Self {
            running: Mutex::new(settings.clone()),
            verifier,
            keys,
            kept,
            tokens,
            path_tokens,
            gemini,
            subscription,
            traces,
        }
    }

    /// Takes the secrets of a configuration that was read again, or says why not. `before` is the
    /// one that the process was started with.
    pub(super) fn reload(&self, read: Result<Loaded, Problems>, before: &Effective) {
        let taken = match read {
            Ok(loaded) => self.take(&loaded.settings).map(|names| (names, loaded)),
            Err(Problems(problems)) => Err(problems.iter().map(ToString::to_string).collect()),
        };
        match taken {
            Ok((names, loaded)) => {
                let reloaded = if names.is_empty() {
                    "none has changed".to_owned()
                } else {
                    names.join(", ")
                };
                tracing::info!(reloaded, "read the secrets again: {reloaded}");
                let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                let mut rest = loaded.effective.other_than(before);
                rest.extend(effects_with_other_secrets(&running, &loaded.settings));
                if !rest.is_empty() {
                    let keys = rest.join(", ");
                    tracing::warn!(keys, "changed, and wants a restart: {keys}");
                }
            }
            Err(problems) => {
                for problem in &problems {
                    tracing::error!(problem, "a secret cannot be used: {problem}");
                }
                let count = problems.len();
                tracing::error!(problems = count, "the secrets stay as they were");
            }
        }
    }

    /// The names of what has changed. On an error nothing has.
    fn take(&self, new: &Settings) -> Result<Vec<String>, Vec<String>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let merged = merged(&running, new);
        let verifier = Verifier::new(&merged.hooks, &merged.sources, &self.keys);
        let verifier = verifier
            .map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())?
            .taking_over(&self.verifier.get());
        let alone = |problem: String| vec![problem];
        let mut names = changed(&running, &merged);
        if let Some((file, set)) = &self.kept {
            let (_, other) = set.take_in(file).map_err(|e| alone(e.to_string()))?;
            if other {
                names.push("subscription.secrets_file".to_owned());
            }
        }
        let trace_headers = super::traces::headers(&merged.traces);
        let trace_headers = Traces::checked(&trace_headers);
        let trace_headers = trace_headers.map_err(|e| alone(e.to_string()))?;
        // The last that can fail: what follows only replaces.
        let renewed = self.gemini.renew(&merged.gemini);
        renewed.map_err(|e| alone(e.to_string()))?;
        let path_tokens = merged.hooks.path_token.as_ref().map(PathTokens::new);
        self.verifier.set(verifier);
        self.path_tokens.set(path_tokens);
        self.tokens.replace(&merged.admin);
        self.traces.renew(trace_headers);
        if let Some(subscription) = &self.subscription {
            subscription.wants(&merged);
        }
        *running = merged;
        Ok(names)
    }
}

/// The running settings with the secrets of `new`.
fn merged(running: &Settings, new: &Settings) -> Settings {
    let mut merged = running.clone();
    merged.hooks.path_token.clone_from(&new.hooks.path_token);
    merged
        .hooks
        .shared_secret
        .clone_from(&new.hooks.shared_secret);
    merged.gemini.api_key.clone_from(&new.gemini.api_key);
    let headers = &new.gemini.extra_headers;
    merged.gemini.extra_headers.clone_from(headers);
    merged.traces.headers.clone_from(&new.traces.headers);
    merged.admin.token.clone_from(&new.admin.token);
    merged.admin.tokens.clone_from(&new.admin.tokens);
    for (name, source) in &mut merged.sources {
        if let Some(new) = new.sources.get(name) {
            source.signing_secrets.clone_from(&new.signing_secrets);
        }
    }
    merged
}

/// The keys whose secrets differ.
fn changed(before: &Settings, after: &Settings) -> Vec<String> {
    let (b, a) = (before, after);
    let texts = |secrets: &[Secret]| -> Vec<String> {
        let text = |secret: &Secret| secret.expose().to_owned();
        secrets.iter().map(text).collect()
    };
    let one = |secret: &Option<Secret>| texts(secret.as_slice());
    let mut names = Vec::new();
    for (key, before, after) in [
        ("hooks.path_token", &b.hooks.path_token, &a.hooks.path_token),
        (
            "hooks.shared_secret",
            &b.hooks.shared_secret,
            &a.hooks.shared_secret,
        ),
        ("gemini.api_key", &b.gemini.api_key, &a.gemini.api_key),
    ] {
        if one(before) != one(after) {
            names.push(key.to_owned());
        }
    }
    let headers = |all: &BTreeMap<String, Secret>| -> BTreeSet<(String, String)> {
        all.iter()
            .map(|(name, value)| (name.clone(), value.expose().to_owned()))
            .collect()
    };
    for (key, before, after) in [
        (
            "gemini.extra_headers",
            &b.gemini.extra_headers,
            &a.gemini.extra_headers,
        ),
        ("traces.headers", &b.traces.headers, &a.traces.headers),
    ] {
        if headers(before) != headers(after) {
            names.push(key.to_owned());
        }
    }
    for (name, source) in &a.sources {
        let before = b.sources.get(name).map(|s| texts(&s.signing_secrets));
        if before != Some(texts(&source.signing_secrets)) {
            names.push(format!("sources.{name}.signing_secrets"));
        }
    }
    let tokens = |settings: &Settings| -> BTreeSet<_> {
        let all = settings.admin.all();
        all.map(|t| {
            let full = t.scope == crate::config::settings::Scope::Full;
            (t.name.to_owned(), full, t.secret.expose().to_owned())
        })
        .collect()
    };
    let (old, new) = (tokens(b), tokens(a));
    let differing: BTreeSet<&str> = old
        .symmetric_difference(&new)
        .map(|(name, ..)| name.as_str())
        .collect();
    names.extend(differing.iter().map(|name| format!("admin token {name}")));
    names
}

/// Effects keep the secrets they were started with.
fn effects_with_other_secrets(running: &Settings, new: &Settings) -> Vec<String> {
    fn secrets(effect: &Effect) -> Vec<&str> {
        match &effect.action {
            Action::Http {
                secret, headers, ..
            } => secret
                .iter()
                .chain(headers.values())
                .map(Secret::expose)
                .collect(),
            Action::Slack { webhook_url, .. } => vec![webhook_url.expose()],
            Action::Results { .. } | Action::Command { .. } => Vec::new(),
        }
    }
    let differs = |effect: &&Effect| {
        let name = &effect.rule.name;
        let now = new.effects.iter().find(|e| e.rule.name == *name);
        now.is_some_and(|now| secrets(now) != secrets(effect))
    };
    let all = running.effects.iter().filter(differs);
    all.map(|effect| format!("the secrets of effect {}", effect.rule.name))
        .collect()
}
