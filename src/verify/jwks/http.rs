//! Key sets over HTTP.
//!
//! Threats: a server that is slow, endless, redirects elsewhere, or answers with something else.
//! A fetch has 5 seconds in all, reads 256 KiB at most, follows no redirect and wants a plain 200.
//!
//! Races: everybody who needs the same set waits for one fetch. It runs in a task of its own, so a
//! sender who hangs up does not take it along and leave the others a minute without keys. The end
//! of the fetch is the drop of a channel's sender: a task that panics or is stopped wakes those who
//! wait as surely as one that succeeds, and they find the attempt failed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, StatusCode, header};
use tokio::sync::watch;
use url::{Host, Url};

use super::cache::{Cache, Look, fresh_for};
use super::document::{self, Keys, RsaKey};
use super::{KeySource, NoKey};
use crate::base::clock::Clock;
use crate::base::shutdown::Shutdown;
use crate::telemetry::metrics;

const USER_AGENT: &str = concat!("hookledger/", env!("CARGO_PKG_VERSION"));
/// One fetch, everything included.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Largest key set read, bytes.
const MAX_BODY: usize = 256 * 1024;

/// The HTTP client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client for key sets could not be made")]
pub struct BuildError(#[source] reqwest::Error);

/// [`KeySource`] over HTTP, with one cache per URL.
#[derive(Debug)]
pub struct HttpKeys {
    clock: Arc<dyn Clock>,
    tasks: Shutdown,
    direct: Client,
    outward: Client,
    sets: Mutex<BTreeMap<Url, Arc<Mutex<Set>>>>,
}

#[derive(Debug, Default)]
struct Set {
    cache: Cache,
    running: Option<watch::Receiver<()>>,
}

impl HttpKeys {
    /// Knows no key yet. Fetches run in `tasks`.
    ///
    /// # Errors
    /// The TLS machinery did not start.
    pub fn new(clock: Arc<dyn Clock>, tasks: Shutdown) -> Result<Self, BuildError> {
        Self::within(TIMEOUT, clock, tasks)
    }

    /// The same, with a bound of its own on one fetch.
    ///
    /// # Errors
    /// The TLS machinery did not start.
    pub fn within(
        timeout: Duration,
        clock: Arc<dyn Clock>,
        tasks: Shutdown,
    ) -> Result<Self, BuildError> {
        let client = || {
            Client::builder()
                .user_agent(USER_AGENT)
                .redirect(reqwest::redirect::Policy::none())
                .timeout(timeout)
        };
        Ok(Self {
            clock,
            tasks,
            // A proxy of the environment is for the world outside.
            direct: client().no_proxy().build().map_err(BuildError)?,
            outward: client().build().map_err(BuildError)?,
            sets: Mutex::default(),
        })
    }

    fn set(&self, url: &Url) -> Arc<Mutex<Set>> {
        let mut sets = locked(&self.sets);
        Arc::clone(sets.entry(url.clone()).or_default())
    }

    /// The running fetch of this set, or a new one.
    fn join(&self, url: &Url, set: &Arc<Mutex<Set>>, state: &mut Set) -> watch::Receiver<()> {
        let (done, waiting) = watch::channel(());
        state.cache.attempt(self.clock.monotonic());
        state.running = Some(waiting.clone());
        let client = if is_loopback(url) {
            &self.direct
        } else {
            &self.outward
        };
        let (client, url, set) = (client.clone(), url.clone(), Arc::clone(set));
        let clock = Arc::clone(&self.clock);
        self.tasks.spawn("key set", async move {
            let fetched = fetch(&client, &url).await;
            metrics::jwks_fetch(fetched.as_ref().map_or_else(Failure::label, |_| "fetched"));
            match fetched {
                Ok((keys, fresh_for)) => {
                    let names: Vec<&str> = keys.keys().map(String::as_str).collect();
                    tracing::debug!(host = url.host_str(), kids = ?names, "read a key set");
                    let now = clock.monotonic();
                    locked(&set).cache.store(keys, fresh_for, now);
                }
                Err(why) => {
                    tracing::warn!(host = url.host_str(), %why, "cannot read a key set");
                }
            }
            drop(done);
        });
        waiting
    }
}

#[async_trait]
impl KeySource for HttpKeys {
    async fn key(&self, url: &Url, kid: &str) -> Result<RsaKey, NoKey> {
        let set = self.set(url);
        let mut end = {
            let mut state = locked(&set);
            let now = self.clock.monotonic();
            // Who comes while a fetch runs waits for it, unless a fresh set answers anyway.
            let running = state.running.clone().filter(|r| r.has_changed().is_ok());
            match (running, state.cache.look(kid, now)) {
                (_, Look::Answer(Ok(key))) if state.cache.is_fresh(now) => return Ok(key),
                (Some(running), _) => running,
                (None, Look::Answer(answer)) => return answer,
                (None, Look::Ask) => self.join(url, &set, &mut state),
            }
        };
        // Nothing is ever sent: this ends with an error when the sender is dropped.
        let _ = end.changed().await;
        let mut state = locked(&set);
        let now = self.clock.monotonic();
        let answer = state.cache.answer(kid, now);
        if answer.as_ref().err() == Some(&NoKey::Unknown) {
            state.cache.note_missing(kid, now);
        }
        answer
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Why a set could not be read.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no answer in time: {0}")]
    Unreachable(#[source] reqwest::Error),
    #[error("the answer was {0}")]
    Refused(StatusCode),
    #[error("the answer is larger than {MAX_BODY} bytes")]
    TooLarge,
    #[error("the answer holds no usable RS256 key")]
    NoKeys,
}

impl Failure {
    const fn label(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Refused(_) => "refused",
            Self::TooLarge => "too_large",
            Self::NoKeys => "no_keys",
        }
    }
}

async fn fetch(client: &Client, url: &Url) -> Result<(Keys, Option<Duration>), Failure> {
    let lost = |error: reqwest::Error| Failure::Unreachable(error.without_url());
    let request = client
        .get(url.clone())
        .header(header::ACCEPT, "application/json");
    let mut response = request.send().await.map_err(lost)?;
    if response.status() != StatusCode::OK {
        return Err(Failure::Refused(response.status()));
    }
    let text = |name| response.headers().get(name)?.to_str().ok();
    let fresh_for = text(header::CACHE_CONTROL).and_then(|said| fresh_for(said, text(header::AGE)));
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(Failure::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    let keys = document::read(&body).ok_or(Failure::NoKeys)?;
    Ok((keys, fresh_for))
}
