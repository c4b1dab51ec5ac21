//! Settings that are each legal and wrong together, and those that are only unwise.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;

use super::Purpose;
use super::environment::variable_for;
use super::read::Reader;
use super::secrets::{SIGNING_KEY_BYTES, can_sign, is_signing_secret, needed, strong};
use super::settings::{Action, Require, Settings, Source};

/// A lease must outlive the request it covers by this much.
pub const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// A provider repeats a delivery for at least so long.
const REDELIVERY: Duration = Duration::from_secs(24 * 3600);

/// Everything that must hold between keys.
pub(super) fn check(r: &mut Reader<'_>, s: &Settings) {
    times(r, s);
    alerts(r, s);
    if r.purpose == Purpose::Serve {
        super::admin::check(r, s);
        doors(r, s);
        sources(r, s);
        subscription(r, s);
        signers(r, s);
        super::traces::check(r, &s.traces);
        warnings(r, s);
    }
}

/// A send renews its lease every third of it, through a writer that may be busy for seconds.
const SHORTEST_SEND_LEASE: Duration = Duration::from_secs(10);

fn times(r: &mut Reader<'_>, s: &Settings) {
    let margin = humantime::format_duration(LEASE_MARGIN);
    if s.worker.lease < s.gemini.timeout.saturating_add(LEASE_MARGIN)
        && r.sound(&["worker.lease", "gemini.timeout"])
    {
        let what =
            format!("is not {margin} longer than gemini.timeout, so a fetch could outlive it");
        r.problem(
            "worker.lease",
            what,
            "lengthen it, or shorten gemini.timeout",
        );
    }
    if s.delivery.lease < SHORTEST_SEND_LEASE && r.sound(&["delivery.lease"]) {
        r.problem(
            "delivery.lease",
            "is too short to be renewed in time while an effect is being sent",
            "use at least 10s",
        );
    }
    for (low, high, shorter, longer) in [
        (
            s.reconcile.check_min,
            s.reconcile.check_max,
            "reconcile.check_min",
            "reconcile.check_max",
        ),
        (
            s.worker.retry_first,
            s.worker.retry_cap,
            "worker.retry_first",
            "worker.retry_cap",
        ),
        (
            s.delivery.retry_first,
            s.delivery.retry_cap,
            "delivery.retry_first",
            "delivery.retry_cap",
        ),
    ] {
        if low > high && r.sound(&[shorter, longer]) {
            let what = format!("is longer than {longer}");
            r.problem(shorter, what, format!("shorten it, or lengthen {longer}"));
        }
    }
    if s.worker.fresh_slots >= s.worker.concurrency
        && r.sound(&["worker.fresh_slots", "worker.concurrency"])
    {
        let what = "leaves no slot of worker.concurrency to reconciliation";
        r.problem(
            "worker.fresh_slots",
            what,
            "make it smaller than worker.concurrency",
        );
    }
    let needed = REDELIVERY.saturating_add(s.hooks.tolerance);
    if s.hooks.dedupe_ttl < needed && r.sound(&["hooks.dedupe_ttl", "hooks.tolerance"]) {
        let what = "is shorter than the 24h of redelivery and hooks.tolerance, so a late copy would \
                    count as new";
        let fix = format!("make it at least {}", humantime::format_duration(needed));
        r.problem("hooks.dedupe_ttl", what, fix);
    }
}

fn alerts(r: &mut Reader<'_>, s: &Settings) {
    let key = "alerts.to";
    for name in &s.alerts.to {
        let effect = s.effects.iter().find(|e| e.rule.name == *name);
        let what = match effect.map(|e| &e.action) {
            None => "names an effect that does not exist",
            Some(Action::Results { .. }) => "names a results effect, which tells nobody anything",
            Some(_) => continue,
        };
        let fix = "name http, slack or command effects of this configuration";
        r.problem(key, what, fix);
        break;
    }
}

/// What the public door itself needs.
fn doors(r: &mut Reader<'_>, s: &Settings) {
    let path_token = s.hooks.path_token.as_ref();
    needed(r, "hooks.path_token", path_token);
    let url_safe = |b: u8| b.is_ascii_alphanumeric() || b"._~-".contains(&b);
    if path_token.is_some_and(|t| !t.expose().bytes().all(url_safe))
        && r.sound(&["hooks.path_token"])
    {
        let what = "has characters that are not safe in a URL";
        r.problem("hooks.path_token", what, "use A-Z a-z 0-9 . _ ~ - only");
    }
    let shared = s.hooks.shared_secret.as_ref();
    if s.sources.values().any(|source| source.shared_header) {
        needed(r, "hooks.shared_secret", shared);
    } else {
        strong(r, "hooks.shared_secret", shared);
    }
    if let (Some(a), Some(b)) = (path_token, shared)
        && a.expose() == b.expose()
        && r.sound(&["hooks.path_token", "hooks.shared_secret"])
    {
        let what = "is the same as hooks.path_token, which stands in access logs";
        r.problem("hooks.shared_secret", what, "make one of its own");
    }
}

fn sources(r: &mut Reader<'_>, s: &Settings) {
    for (name, source) in &s.sources {
        let at = format!("sources.{name}");
        let secrets = format!("{at}.signing_secrets");
        let unsigned = source.signing_secrets.is_empty() && !source.kept_secrets;
        if !source.shared_header && unsigned && !source.jwt && r.sound(&[&secrets]) {
            let fix = format!("set {secrets}, or {at}.shared_header = true, or {at}.jwt = true");
            r.problem(&at, "accepts no proof at all", fix);
        }
        if !source.signing_secrets.iter().all(is_signing_secret) {
            let what = format!(
                "has an entry that is not a key of {} to {} varied bytes",
                SIGNING_KEY_BYTES.start(),
                SIGNING_KEY_BYTES.end()
            );
            let fix = "copy the whole secret as it was issued, whsec_ and base64";
            r.problem(&secrets, what, fix);
        }
        if source.jwt {
            tokens(r, &at, source);
        }
        if !source.allow_from.is_empty() {
            addresses(r, s, &at, &source.allow_from);
        }
        if unsigned && source.shared_header {
            r.warn(
                &secrets,
                "is empty: deliveries are believed by the shared header alone",
            );
        } else if !unsigned && source.shared_header && source.require == Require::Any {
            r.warn(
                &format!("{at}.require"),
                "accepts the shared header without a signature; \"all\" asks for both, or set \
                 shared_header = false",
            );
        }
    }
}

/// A source that takes deliveries from some addresses alone. The address is the peer's unless the
/// peer is a trusted proxy.
fn addresses(r: &mut Reader<'_>, s: &Settings, at: &str, allowed: &[IpNet]) {
    let key = format!("{at}.allow_from");
    let proxies = &s.server.trusted_proxies;
    let meets = |a: &IpNet, b: &IpNet| a.contains(&b.addr()) || b.contains(&a.addr());
    let here = |net: &IpNet| match net {
        IpNet::V4(net) => net.addr().is_loopback() || net.contains(&Ipv4Addr::LOCALHOST),
        IpNet::V6(net) => net.contains(&Ipv6Addr::LOCALHOST),
    };
    if !r.sound(&[&key, "server.trusted_proxies", "server.listen"]) {
        return;
    }
    if !proxies.is_empty() {
        if proxies.iter().any(|p| allowed.iter().any(|a| meets(p, a))) {
            let what = "shares addresses with server.trusted_proxies: whatever a proxy sends without \
                        a forwarding header gets in";
            r.warn(&key, what);
        }
    } else if s.server.listen.ip().is_loopback() && !allowed.iter().any(here) {
        let what = "would refuse every delivery: server.listen is loopback, so the peer is a proxy, \
                    and server.trusted_proxies does not name it";
        let fix = "set server.trusted_proxies to the proxy's network, as in [\"127.0.0.1/32\"]";
        r.problem(&key, what, fix);
    } else {
        let what = "is compared with the peer's own address, since server.trusted_proxies is empty: \
                    behind a proxy that is the proxy's, for everybody";
        r.warn(&key, what);
    }
}

/// What looking after the subscription needs.
fn subscription(r: &mut Reader<'_>, s: &Settings) {
    if !s.subscription.enabled {
        return;
    }
    if s.gemini.api_key.is_none() && r.sound(&["gemini.api_key"]) {
        let what = "is needed to look after the subscription (subscription.enabled)";
        let fix = format!("set {}", variable_for("gemini.api_key"));
        r.problem("gemini.api_key", what, fix);
    }
    let keys = ["subscription.uri", "server.public_url", "hooks.path_token"];
    if s.delivery_uri().is_none() && r.sound(&keys) {
        let what = "is not set, and server.public_url does not say it either";
        let fix = "set server.public_url to the address of /hooks as the provider sees it";
        r.problem("subscription.uri", what, fix);
    }
    if s.subscription
        .ping_interval
        .is_some_and(|every| every <= s.subscription.ping_bound)
        && r.sound(&["subscription.ping_interval", "subscription.ping_bound"])
    {
        let what = "is not longer than subscription.ping_bound";
        let fix = "lengthen it, or write \"0s\" for no pings";
        r.problem("subscription.ping_interval", what, fix);
    }
}

/// A source that accepts tokens.
fn tokens(r: &mut Reader<'_>, at: &str, source: &Source) {
    let urls = format!("{at}.jwks_urls");
    if source.jwks_urls.is_empty() && r.sound(&[&urls]) {
        let fix = format!("name the key sets that may sign, or set {at}.jwt = false");
        r.problem(&urls, "is empty, and tokens are accepted", fix);
    }
    let plain = |u: &url::Url| u.scheme() == "http" && !is_loopback(u);
    if source.jwks_urls.iter().any(plain) {
        let what = "has plain http: whoever sits in between makes the keys that are believed";
        r.warn(&urls, what);
    }
    let audiences = format!("{at}.audiences");
    if source.audiences.is_empty() && r.sound(&[&audiences]) {
        r.warn(
            &audiences,
            "is empty: tokens are believed whoever they were made for; pin the one that the log \
             shows, or set jwt = false",
        );
    }
}

/// Effects that sign what they send.
fn signers(r: &mut Reader<'_>, s: &Settings) {
    for (i, effect) in s.effects.iter().enumerate() {
        if let Action::Http {
            secret: Some(secret),
            ..
        } = &effect.action
            && !can_sign(secret)
        {
            let what = "is neither whsec_ with a key of 24 to 64 bytes nor a strong text";
            let fix = "make one: whsec_ and base64, as `hookledger secret new --whsec` prints it";
            r.problem(&format!("effects.{i}.secret"), what, fix);
        }
    }
}

fn warnings(r: &mut Reader<'_>, s: &Settings) {
    if s.gemini.api_key.is_none() {
        r.warn(
            "gemini.api_key",
            "is not set: nothing is fetched, so nothing settles",
        );
    }
    for (key, url) in [
        ("gemini.base_url", Some(&s.gemini.base_url)),
        (
            "gemini.download_base_url",
            s.gemini.download_base_url.as_ref(),
        ),
    ] {
        if url.is_some_and(|u| u.scheme() == "http" && !is_loopback(u)) {
            r.warn(key, "is plain http: the API key travels unencrypted");
        }
    }
    if s.effects.is_empty() {
        r.warn(
            "effects",
            "are none: operations settle in the ledger and nobody is told",
        );
    }
    if s.admin.all().next().is_none() {
        r.warn(
            "admin.token",
            "is not set: the admin API refuses every call",
        );
    }
}

pub(super) fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}
