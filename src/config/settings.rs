//! The effective configuration, typed and already checked.
//!
//! Nothing here reads a file or the environment: `config::load` does, and hands over a [`Settings`]
//! that every other part may believe. Each field is a key of `config/default.toml`, where its
//! sentence stands.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::base::secret::Secret;
use crate::domain::effect::EffectRule;
use crate::domain::operation::Kind;

/// Everything that can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `[server]`: the public listener.
    pub server: Server,
    /// `[admin]`: the operator's listener.
    pub admin: Admin,
    /// `[hooks]`: what every delivery must carry.
    pub hooks: Hooks,
    /// `[sources.NAME]`: who may deliver, and with which proofs.
    pub sources: BTreeMap<String, Source>,
    /// `[store]`
    pub store: Store,
    /// `[gemini]`
    pub gemini: Gemini,
    /// `[worker]`
    pub worker: Worker,
    /// `[reconcile]`
    pub reconcile: Reconcile,
    /// `[subscription]`: the provider's record of where deliveries go.
    pub subscription: Subscription,
    /// `[ledger]`
    pub ledger: Ledger,
    /// `[delivery]`: how effects are sent and given up.
    pub delivery: Delivery,
    /// `[[effects]]`
    pub effects: Vec<Effect>,
    /// `[alerts]`
    pub alerts: Alerts,
    /// `[log]`
    pub log: Log,
    /// `[traces]`
    pub traces: Traces,
}

impl Settings {
    /// Where the provider should deliver: `subscription.uri`, or what `server.public_url` and
    /// `hooks.path_token` make. It holds the path token, so it must not be shown.
    pub fn delivery_uri(&self) -> Option<String> {
        if let Some(uri) = &self.subscription.uri {
            return Some(uri.to_string());
        }
        let base = self.server.public_url.as_ref()?.as_str();
        let token = self.hooks.path_token.as_ref()?.expose();
        Some(format!(
            "{}/hooks/gemini/{token}",
            base.trim_end_matches('/')
        ))
    }
}

/// `[server]`
#[derive(Debug, Clone)]
pub struct Server {
    /// `listen`
    pub listen: SocketAddr,
    /// `header_timeout`
    pub header_timeout: Duration,
    /// `body_timeout`
    pub body_timeout: Duration,
    /// `max_body`, bytes
    pub max_body: u64,
    /// `max_connections`
    pub max_connections: usize,
    /// `max_connections_per_address`
    pub max_connections_per_address: usize,
    /// `max_in_flight`: deliveries being handled at once
    pub max_in_flight: usize,
    /// `trusted_proxies`: networks whose forwarding headers count
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// `stop_timeout`: how long a graceful stop may take
    pub stop_timeout: Duration,
    /// `public_url`: the address of `/hooks` as the provider sees it, for printed URLs
    pub public_url: Option<Url>,
}

/// `[admin]`
#[derive(Debug, Clone)]
pub struct Admin {
    /// `listen`
    pub listen: SocketAddr,
    /// `token`: the simple form of one token, which may do everything. Without any token only a
    /// loopback address may be listened on, and the API refuses.
    pub token: Option<Secret>,
    /// `[[admin.tokens]]`
    pub tokens: Vec<AdminToken>,
}

/// One of `[[admin.tokens]]`.
#[derive(Debug, Clone)]
pub struct AdminToken {
    /// Its place in the list, as in `admin.tokens.0`.
    pub place: String,
    /// `name`: who holds it, for the log.
    pub name: String,
    /// `scope`
    pub scope: Scope,
    /// `token`
    pub token: Secret,
}

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Look.
    Read,
    /// Look and change.
    Full,
}

/// A token of either form.
#[derive(Debug, Clone, Copy)]
pub struct AnyToken<'a> {
    /// Its place in `[[admin.tokens]]`; `None` for `admin.token`.
    pub place: Option<&'a str>,
    /// Its name; `admin` for `admin.token`.
    pub name: &'a str,
    /// What it may do.
    pub scope: Scope,
    /// The token itself.
    pub secret: &'a Secret,
}

impl Admin {
    /// The name of `admin.token`.
    pub const SIMPLE: &'static str = "admin";

    /// Every token, `admin.token` first.
    pub fn all(&self) -> impl Iterator<Item = AnyToken<'_>> {
        let simple = self.token.iter().map(|secret| AnyToken {
            place: None,
            name: Self::SIMPLE,
            scope: Scope::Full,
            secret,
        });
        simple.chain(self.tokens.iter().map(|one| AnyToken {
            place: Some(&one.place),
            name: &one.name,
            scope: one.scope,
            secret: &one.token,
        }))
    }

    /// The one that a command on the same configuration uses: the first that may do most.
    pub fn best(&self) -> Option<&Secret> {
        let full = self.all().find(|token| token.scope == Scope::Full);
        full.or_else(|| self.all().next()).map(|token| token.secret)
    }
}

/// `[hooks]`
#[derive(Debug, Clone)]
pub struct Hooks {
    /// `path_token`
    pub path_token: Option<Secret>,
    /// `shared_secret`
    pub shared_secret: Option<Secret>,
    /// `tolerance`: how far a signed timestamp may be from now, either way
    pub tolerance: Duration,
    /// `dedupe_ttl`
    pub dedupe_ttl: Duration,
    /// `max_waiting`: bytes of deliveries that may wait for their commit before the answer is 503
    pub max_waiting: u64,
}

/// Which proofs a delivery must bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Require {
    /// One valid proof is enough; a wrong one is refused all the same.
    Any,
    /// Every configured proof.
    All,
}

/// `[sources.NAME]`
#[derive(Debug, Clone)]
pub struct Source {
    /// `require`
    pub require: Require,
    /// `shared_header`: accept `X-Hook-Secret`
    pub shared_header: bool,
    /// `signing_secrets`: Standard Webhooks secrets, decoded keys are made by `verify`
    pub signing_secrets: Vec<Secret>,
    /// Whether `subscription.secrets_file` holds more of them, which may change at run time.
    pub kept_secrets: bool,
    /// `jwt`: accept the tokens of dynamic webhooks
    pub jwt: bool,
    /// `jwks_urls`: the key sets that may sign them
    pub jwks_urls: Vec<Url>,
    /// `audiences`: one of them must be in a token; empty takes every token, and logs what it says
    pub audiences: Vec<String>,
    /// `issuers`: one of them must be a token's; empty takes every token
    pub issuers: Vec<String>,
    /// `allow_from`: networks it may deliver from; empty is everywhere
    pub allow_from: Vec<ipnet::IpNet>,
}

/// `[store]`
#[derive(Debug, Clone)]
pub struct Store {
    /// `path`
    pub path: PathBuf,
    /// `readers`: read-only connections
    pub readers: u32,
    /// `min_free_disk`, bytes: below it the service is not ready
    pub min_free_disk: u64,
    /// `low_free_disk`, bytes: below it an alert opens
    pub low_free_disk: u64,
    /// `event_retention`: how long captured deliveries are kept
    pub event_retention: Duration,
    /// `body_retention`: how long their bodies and headers are kept
    pub body_retention: Duration,
    /// `backup_directory`: where dated backups go when no other place is named
    pub backup_directory: Option<PathBuf>,
}

/// `[gemini]`
#[derive(Debug, Clone)]
pub struct Gemini {
    /// `base_url`
    pub base_url: Url,
    /// `download_base_url`; the base URL when not set
    pub download_base_url: Option<Url>,
    /// `api_version`
    pub api_version: String,
    /// `api_key`; without one nothing is fetched
    pub api_key: Option<Secret>,
    /// `timeout` of one request, connection included
    pub timeout: Duration,
    /// `requests_per_second`; 0 is no cap
    pub requests_per_second: u32,
    /// `extra_headers` sent with every request; values are secrets
    pub extra_headers: BTreeMap<String, Secret>,
    /// `max_body`: largest operation body read, bytes
    pub max_body: u64,
}

/// `[worker]`
#[derive(Debug, Clone)]
pub struct Worker {
    /// `concurrency`: fetches at once
    pub concurrency: usize,
    /// `fresh_slots`: of these, how many reconciliation can never take
    pub fresh_slots: usize,
    /// `lease`: longer than `gemini.timeout`
    pub lease: Duration,
    /// `max_attempts`
    pub max_attempts: u32,
    /// `unresolved_ttl`: how long a delivery naming an unknown operation waits
    pub unresolved_ttl: Duration,
    /// `retry_first`, `retry_cap`: back-off of failed fetches
    pub retry_first: Duration,
    /// `retry_cap`
    pub retry_cap: Duration,
}

/// `[reconcile]`
#[derive(Debug, Clone)]
pub struct Reconcile {
    /// `interval` between turns
    pub interval: Duration,
    /// `grace` after registration before the first look
    pub grace: Duration,
    /// `check_min` between looks
    pub check_min: Duration,
    /// `check_max` between looks
    pub check_max: Duration,
    /// `stuck_after`: pending for longer alerts
    pub stuck_after: Duration,
    /// `stuck_after_by_kind.KIND`
    pub stuck_after_by_kind: BTreeMap<Kind, Duration>,
    /// `batch_size`: due operations taken in one turn
    pub batch_size: u32,
    /// `gone_after`: a Google-shaped 404 for this long closes as gone
    pub gone_after: Duration,
    /// `webhook_late_after`: when a settled operation without a delivery counts as rescued
    pub webhook_late_after: Duration,
}

/// `[subscription]`
#[derive(Debug, Clone)]
pub struct Subscription {
    /// `enabled`: whether the service looks after it
    pub enabled: bool,
    /// `webhook_id`: the record's id; found by its URI when not set
    pub webhook_id: Option<String>,
    /// `uri`: where deliveries go; made of `server.public_url` and the path token when not set
    pub uri: Option<Url>,
    /// `events` to subscribe to
    pub events: Vec<String>,
    /// `poll_interval` between two looks at the record
    pub poll_interval: Duration,
    /// `ping_interval` between two pings; `None` is off
    pub ping_interval: Option<Duration>,
    /// `ping_bound`: a ping must have come back by then
    pub ping_bound: Duration,
    /// `secrets_file`: where secrets go that the provider shows once
    pub secrets_file: Option<PathBuf>,
    /// `reenable`: whether a disabled record is enabled again
    pub reenable: bool,
}

/// What to do with operations nobody registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unregistered {
    /// Take them into the ledger when the API confirms them.
    Adopt,
    /// Keep the event, drop the work.
    Ignore,
}

/// `[ledger]`
#[derive(Debug, Clone)]
pub struct Ledger {
    /// `unregistered`
    pub unregistered: Unregistered,
    /// `retention` after settling
    pub retention: Duration,
    /// `tombstone_retention`
    pub tombstone_retention: Duration,
}

/// `[delivery]`
#[derive(Debug, Clone)]
pub struct Delivery {
    /// `concurrency`: sends at once of each effect
    pub concurrency: usize,
    /// `give_up_after`
    pub give_up_after: Duration,
    /// `retry_first`
    pub retry_first: Duration,
    /// `retry_cap`
    pub retry_cap: Duration,
    /// `lease` of a send; renewed while it runs
    pub lease: Duration,
}

/// One `[[effects]]`: when it acts, and how.
#[derive(Debug, Clone)]
pub struct Effect {
    /// `name`, `job_kind`, `on`, `ambiguous`
    pub rule: EffectRule,
    /// `kind` and the keys that belong to it
    pub action: Action,
    /// `timeout` of one attempt
    pub timeout: Duration,
}

/// How an effect acts.
#[derive(Debug, Clone)]
pub enum Action {
    /// `kind = "http"`
    Http {
        /// `url`
        url: Url,
        /// `secret`: signs by Standard Webhooks when set
        secret: Option<Secret>,
        /// `allow_private`: loopback and private addresses (never link-local)
        allow_private: bool,
        /// `headers` sent along; values are secrets
        headers: BTreeMap<String, Secret>,
    },
    /// `kind = "results"`
    Results {
        /// `directory`
        directory: PathBuf,
    },
    /// `kind = "command"`
    Command {
        /// `argv`: program and arguments, no shell
        argv: Vec<String>,
    },
    /// `kind = "slack"`
    Slack {
        /// `webhook_url`: an incoming-webhook URL, itself a secret
        webhook_url: Secret,
        /// `allow_private`, for tests and relays
        allow_private: bool,
    },
}

/// `[alerts]`
#[derive(Debug, Clone)]
pub struct Alerts {
    /// `to`: names of `http`, `slack` or `command` effects that also carry alerts
    pub to: Vec<String>,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Whether lines are JSON when they go to a terminal, or not to one.
    pub const fn is_json(self, to_terminal: bool) -> bool {
        match self {
            Self::Auto => !to_terminal,
            Self::Text => false,
            Self::Json => true,
        }
    }
}

/// `[log]`
#[derive(Debug, Clone)]
pub struct Log {
    /// `filter`, in `tracing-subscriber` directives
    pub filter: String,
    /// `format`
    pub format: LogFormat,
}

/// `[traces]`
#[derive(Debug, Clone)]
pub struct Traces {
    /// `endpoint`: where spans are posted; none is off
    pub endpoint: Option<Url>,
    /// `headers` sent along; values are secrets
    pub headers: BTreeMap<String, Secret>,
    /// `service_name`
    pub service_name: String,
    /// `sample_percent`: of a hundred traces, how many are exported
    pub sample_percent: u8,
}
