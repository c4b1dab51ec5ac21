//! Each section of the file, read into its type.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use url::Url;

use super::read::Reader;
use super::settings::{
    Admin, Alerts, Delivery, Gemini, Hooks, Ledger, Log, LogFormat, Reconcile, Require, Server,
    Settings, Source, Store, Subscription, Unregistered, Worker,
};
use super::tree::secret_base;
use crate::base::secret::Secret;
use crate::domain::operation::Kind;

/// The source whose secrets `subscription.secrets_file` holds.
const KEPT_FOR: &str = "gemini";

/// Reads everything; whether it may be believed is for the reader's problems to say.
pub(super) fn settings(r: &mut Reader<'_>) -> Settings {
    let mut settings = Settings {
        server: server(r),
        admin: admin(r),
        hooks: Hooks {
            path_token: r.secret("hooks.path_token"),
            shared_secret: r.secret("hooks.shared_secret"),
            tolerance: r.duration("hooks.tolerance"),
            dedupe_ttl: r.duration("hooks.dedupe_ttl"),
            max_waiting: r.size("hooks.max_waiting"),
        },
        sources: sources(r),
        store: Store {
            path: r.path("store.path"),
            readers: r.count("store.readers", 1, 64),
            min_free_disk: r.size("store.min_free_disk"),
            low_free_disk: r.size("store.low_free_disk"),
            event_retention: r.duration("store.event_retention"),
            body_retention: r.duration("store.body_retention"),
            backup_directory: r.path_if_set("store.backup_directory"),
        },
        gemini: gemini(r),
        worker: Worker {
            concurrency: r.count("worker.concurrency", 1, 1024),
            fresh_slots: r.count("worker.fresh_slots", 0, 1024),
            lease: r.duration("worker.lease"),
            max_attempts: r.count("worker.max_attempts", 1, 1000),
            unresolved_ttl: r.duration("worker.unresolved_ttl"),
            retry_first: r.duration("worker.retry_first"),
            retry_cap: r.duration("worker.retry_cap"),
        },
        reconcile: reconcile(r),
        subscription: subscription(r),
        ledger: ledger(r),
        delivery: Delivery {
            concurrency: r.count("delivery.concurrency", 1, 1024),
            give_up_after: r.duration("delivery.give_up_after"),
            retry_first: r.duration("delivery.retry_first"),
            retry_cap: r.duration("delivery.retry_cap"),
            lease: r.duration("delivery.lease"),
        },
        effects: super::effects::effects(r),
        alerts: Alerts {
            to: r.list("alerts.to", None),
        },
        log: log(r),
        traces: super::traces::traces(r),
    };
    if settings.subscription.secrets_file.is_some()
        && let Some(source) = settings.sources.get_mut(KEPT_FOR)
    {
        source.kept_secrets = true;
    }
    settings
}

fn address(r: &mut Reader<'_>, key: &str) -> SocketAddr {
    r.textual(
        key,
        (
            "an IP address and a port",
            "one such as 127.0.0.1:8080 or [::1]:8080",
        ),
        SocketAddr::from(([127, 0, 0, 1], 0)),
    )
}

fn admin(r: &mut Reader<'_>) -> Admin {
    let listen = address(r, "admin.listen");
    super::admin::admin(r, listen)
}

fn server(r: &mut Reader<'_>) -> Server {
    Server {
        listen: address(r, "server.listen"),
        header_timeout: r.duration("server.header_timeout"),
        body_timeout: r.duration("server.body_timeout"),
        max_body: r.size("server.max_body"),
        max_connections: r.count("server.max_connections", 1, 1_000_000),
        max_connections_per_address: r.count("server.max_connections_per_address", 1, 1_000_000),
        max_in_flight: r.count("server.max_in_flight", 1, 1_000_000),
        trusted_proxies: networks(r, "server.trusted_proxies", None),
        stop_timeout: r.duration("server.stop_timeout"),
        public_url: base(r, "server.public_url"),
    }
}

fn networks(r: &mut Reader<'_>, key: &str, otherwise: Option<&str>) -> Vec<ipnet::IpNet> {
    let texts = r.list(key, otherwise);
    let wanted = texts.len();
    // A bare address is a network of one.
    let nets: Vec<ipnet::IpNet> = texts
        .iter()
        .filter_map(|text| {
            let address = || text.parse::<std::net::IpAddr>().map(Into::into);
            text.parse().or_else(|_| address()).ok()
        })
        .map(canonical)
        .collect();
    if nets.len() != wanted {
        let fix = "write each as 10.0.0.0/8, fd00::/8 or a single address";
        r.problem(key, "has an entry that is not a network", fix);
    }
    nets
}

/// Addresses are compared as what they are: a network of IPv4 written as one of IPv6 would hold none.
fn canonical(net: ipnet::IpNet) -> ipnet::IpNet {
    let ipnet::IpNet::V6(v6) = net else {
        return net;
    };
    let mapped = v6
        .addr()
        .to_ipv4_mapped()
        .zip(v6.prefix_len().checked_sub(96));
    let v4 = mapped.and_then(|(address, length)| ipnet::Ipv4Net::new(address, length).ok());
    v4.map_or(net, Into::into)
}

fn sources(r: &mut Reader<'_>) -> BTreeMap<String, Source> {
    let require = [("any", Require::Any), ("all", Require::All)];
    // Read once here, so that a mistake in them is told also when every source has its own.
    let default_require = r.word("each_source.require", None, &require, Require::Any);
    for flag in ["each_source.shared_header", "each_source.jwt"] {
        r.flag_or(flag, flag);
    }
    for list in ["each_source.audiences", "each_source.issuers"] {
        r.list(list, None);
    }
    r.urls("each_source.jwks_urls", "each_source.jwks_urls");
    networks(r, "each_source.allow_from", None);
    let mut sources = BTreeMap::new();
    for name in r.tables("sources") {
        let at = format!("sources.{name}");
        if !is_name(&name, 32) || name.bytes().any(|b| b.is_ascii_uppercase()) {
            let fix = "use 1 to 32 characters from a-z 0-9 . _ -, since it is part of the URL";
            r.problem(&at, "is not a legal name of a source", fix);
        }
        let own = |key: &str| (format!("{at}.{key}"), format!("each_source.{key}"));
        let listed = |r: &mut Reader<'_>, key: &str| {
            let (key, otherwise) = own(key);
            r.list(&key, Some(&otherwise))
        };
        let flag = |r: &mut Reader<'_>, key: &str| {
            let (key, otherwise) = own(key);
            r.flag_or(&key, &otherwise)
        };
        let at_key = |key: &str| format!("{at}.{key}");
        let key = at_key("require");
        let source = Source {
            require: r.word(&key, Some("each_source.require"), &require, default_require),
            shared_header: flag(r, "shared_header"),
            signing_secrets: r.secrets(&format!("{at}.signing_secrets")),
            // Set below, when it is known whether there is such a file.
            kept_secrets: false,
            jwt: flag(r, "jwt"),
            jwks_urls: r.urls(&format!("{at}.jwks_urls"), "each_source.jwks_urls"),
            audiences: listed(r, "audiences"),
            issuers: listed(r, "issuers"),
            allow_from: networks(r, &at_key("allow_from"), Some("each_source.allow_from")),
        };
        sources.insert(name, source);
    }
    sources
}

/// Whether `name` is 1 to `longest` characters from A-Z a-z 0-9 . _ - and begins with none of `.-`.
pub(super) fn is_name(name: &str, longest: usize) -> bool {
    (1..=longest).contains(&name.len())
        && !name.starts_with(['.', '-'])
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn gemini(r: &mut Reader<'_>) -> Gemini {
    let base_url = base(r, "gemini.base_url");
    if base_url.is_none() && r.sound(&["gemini.base_url"]) {
        let fix = "write where the API is, or leave the key out";
        r.problem("gemini.base_url", "is empty", fix);
    }
    let download_base_url = base(r, "gemini.download_base_url");
    let api_version = r.string(
        "gemini.api_version",
        "a version such as v1beta",
        "v1 or v1beta",
    );
    let legal = (1..=32).contains(&api_version.len())
        && api_version.bytes().all(|b| b.is_ascii_alphanumeric());
    if !legal && r.sound(&["gemini.api_version"]) {
        let what = "is not a version such as v1beta";
        r.problem("gemini.api_version", what, "write v1 or v1beta");
    }
    Gemini {
        base_url: base_url.unwrap_or_else(nowhere),
        download_base_url,
        api_version,
        api_key: r.secret("gemini.api_key"),
        timeout: r.duration("gemini.timeout"),
        requests_per_second: r.count("gemini.requests_per_second", 0, 1_000_000),
        extra_headers: headers(r, "gemini.extra_headers"),
        max_body: r.size("gemini.max_body"),
    }
}

/// A URL that paths are put behind.
fn base(r: &mut Reader<'_>, key: &str) -> Option<Url> {
    let url = r.url(key)?;
    if url.query().is_some() || url.fragment().is_some() {
        let what = "has a query or a fragment, and paths are put behind it";
        r.problem(key, what, "end it with its path");
    }
    Some(url)
}

/// Stands in for a URL that was refused.
#[expect(
    clippy::expect_used,
    reason = "a constant that parses; every test of a bad URL runs it"
)]
pub(super) fn nowhere() -> Url {
    Url::parse("http://invalid").expect("a constant that parses")
}

/// Headers that the transport sets itself, or that would change how a message is framed.
const RESERVED_HEADERS: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
];

/// A table of headers whose values are secrets.
pub(super) fn headers(r: &mut Reader<'_>, section: &str) -> BTreeMap<String, Secret> {
    let mut headers = BTreeMap::new();
    for written in r.tables(section) {
        let key = format!("{section}.{written}");
        let key = secret_base(&key).unwrap_or(&key).to_owned();
        let name = key
            .strip_prefix(section)
            .unwrap_or_default()
            .trim_matches(['.', '"'])
            .to_ascii_lowercase();
        if name.parse::<http::HeaderName>().is_err() || RESERVED_HEADERS.contains(&&*name) {
            let fix = "use a header name that the connection does not set itself";
            r.problem(&key, "is not a header that can be set", fix);
        }
        if let Some(value) = r.secret(&key) {
            headers.insert(name, value);
        }
    }
    headers
}

fn reconcile(r: &mut Reader<'_>) -> Reconcile {
    let mut by_kind: BTreeMap<Kind, Duration> = BTreeMap::new();
    for word in r.tables("reconcile.stuck_after_by_kind") {
        let key = format!("reconcile.stuck_after_by_kind.{word}");
        let after = r.duration(&key);
        match Kind::from_word(&word) {
            Some(kind) => {
                by_kind.insert(kind, after);
            }
            None => r.problem(
                &key,
                "is not a kind of operation",
                "use batch, video, interaction or operation",
            ),
        }
    }
    Reconcile {
        interval: r.duration("reconcile.interval"),
        grace: r.duration("reconcile.grace"),
        check_min: r.duration("reconcile.check_min"),
        check_max: r.duration("reconcile.check_max"),
        stuck_after: r.duration("reconcile.stuck_after"),
        stuck_after_by_kind: by_kind,
        batch_size: r.count("reconcile.batch_size", 1, 100_000),
        gone_after: r.duration("reconcile.gone_after"),
        webhook_late_after: r.duration("reconcile.webhook_late_after"),
    }
}

fn subscription(r: &mut Reader<'_>) -> Subscription {
    let webhook_id = r.string(
        "subscription.webhook_id",
        "a webhook's id",
        "the id that `hookledger webhooks list` shows",
    );
    let legal = |id: &str| {
        id.len() <= 128
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    if !legal(&webhook_id) {
        let fix = "write the id that `hookledger webhooks list` shows";
        r.problem("subscription.webhook_id", "is not a webhook's id", fix);
    }
    let events = r.list("subscription.events", None);
    let word = |event: &String| is_name(event, 64);
    if !events.iter().all(word) || (events.is_empty() && r.sound(&["subscription.events"])) {
        let what = "is empty or has an entry that is no type of event";
        r.problem("subscription.events", what, "write [\"batch.succeeded\"]");
    }
    Subscription {
        enabled: r.flag_or("subscription.enabled", "subscription.enabled"),
        webhook_id: Some(webhook_id).filter(|id| !id.is_empty()),
        uri: r.url("subscription.uri"),
        events,
        poll_interval: r.duration("subscription.poll_interval"),
        ping_interval: r.duration_or_off("subscription.ping_interval"),
        ping_bound: r.duration("subscription.ping_bound"),
        secrets_file: r.path_if_set("subscription.secrets_file"),
        reenable: r.flag_or("subscription.reenable", "subscription.reenable"),
    }
}

fn ledger(r: &mut Reader<'_>) -> Ledger {
    let words = [
        ("adopt", Unregistered::Adopt),
        ("ignore", Unregistered::Ignore),
    ];
    Ledger {
        unregistered: r.word("ledger.unregistered", None, &words, Unregistered::Adopt),
        retention: r.duration("ledger.retention"),
        tombstone_retention: r.duration("ledger.tombstone_retention"),
    }
}

fn log(r: &mut Reader<'_>) -> Log {
    let words = [
        ("auto", LogFormat::Auto),
        ("text", LogFormat::Text),
        ("json", LogFormat::Json),
    ];
    let example = "a level such as info, or directives such as info,hookledger::store=debug";
    let filter = r.string("log.filter", "a text", example);
    let directives = tracing_subscriber::EnvFilter::builder().parse(&filter);
    if directives.is_err() && r.sound(&["log.filter"]) {
        let fix = format!("write {example}");
        r.problem("log.filter", "is not a list of directives", fix);
    }
    Log {
        filter,
        format: r.word("log.format", None, &words, LogFormat::Auto),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv4_is_one_however_it_is_written() {
        for (written, meant) in [
            ("::ffff:203.0.113.0/120", "203.0.113.0/24"),
            ("::ffff:203.0.113.9/128", "203.0.113.9/32"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("10.0.0.0/8", "10.0.0.0/8"),
        ] {
            let net = canonical(written.parse().unwrap());
            assert_eq!(net, meant.parse().unwrap(), "{written}");
        }
    }
}
