//! A captured delivery as a shell command that sends it again, byte for byte.
//!
//! Problem: everything in a delivery was chosen by whoever sent it, and an operator will paste the
//! command into a shell. A quote, a newline or `$(…)` in a header must stay data, the body may be no
//! text at all, and the command may end up in a chat: it must hold no secret.
//!
//! Design: the body travels as base64 (or lies in a file beside the script), headers are single
//! quoted words, and what is not printable ASCII is written as octal escapes, so the command itself
//! is always plain ASCII. Secrets are the reader's variables, `${HOOK_PATH_TOKEN:?}` and
//! `${HOOK_SHARED_SECRET:?}`: unset, the shell stops and says which. Headers that belong to the old
//! connection or to the proxies before it are left out, and so are those that curl would add.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use data_encoding::BASE64;
use uuid::Uuid;

use crate::base::clock::Timestamp;
use crate::config::Settings;

/// Headers of one connection, and those that carry or name secrets of ours.
const DROPPED: [&str; 24] = [
    "accept-encoding",
    "authorization",
    "cdn-loop",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "true-client-ip",
    "upgrade",
    "via",
    "x-client-ip",
    "x-hook-secret",
    "x-real-ip",
    "x-request-id",
];
const DROPPED_FAMILIES: [&str; 3] = ["x-forwarded-", "cf-", "x-envoy-"];
/// What identifies and signs a delivery.
const IDENTITY: [&str; 2] = ["webhook-", "svix-"];
/// Headers that curl adds by itself unless told otherwise.
const CURL_ADDS: [&str; 4] = ["accept", "user-agent", "content-type", "expect"];

/// What was captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The source it came from.
    pub source: String,
    /// Names and values, in the order they came.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

/// Why there is no such command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCommand {
    /// The source would refuse it.
    #[error(
        "the source {0} takes only signed deliveries, and no signing secret is configured here; set \
         sources.{0}.signing_secrets"
    )]
    Unsigned(String),
    /// Such a header was never sent.
    #[error("a header holds a byte that no header can hold")]
    Unfit,
}

/// Where it is sent to.
#[derive(Debug)]
pub struct Target {
    /// Without a slash at its end.
    base: String,
    /// Whether the source knows the shared header.
    shared_header: bool,
}

impl Target {
    /// `base`, else the public URL, else the listener as this machine reaches it.
    pub fn of(settings: &Settings, source: &str, base: Option<&str>) -> Self {
        let public = settings.server.public_url.as_ref();
        let base = match (base, public) {
            (Some(base), _) => base.to_owned(),
            (None, Some(url)) => url.to_string(),
            (None, None) => format!("http://{}", reached(settings.server.listen)),
        };
        let base = base.trim_end_matches('/');
        // As somebody gives it who copies the front of a webhook's address.
        let base = base.strip_suffix("/hooks").unwrap_or(base);
        Self {
            base: base.trim_end_matches('/').to_owned(),
            shared_header: settings.sources.get(source).is_none_or(|s| s.shared_header),
        }
    }
}

/// Where a listener is found from its own machine.
fn reached(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// A new identity.
#[derive(Debug)]
pub struct Fresh {
    /// Its `webhook-id`.
    pub id: String,
    /// Its `webhook-timestamp`.
    pub at: Timestamp,
    /// Absent when no signing secret is known here.
    pub signature: Option<String>,
    /// How long the receiver takes `at` for now.
    pub tolerance: Duration,
}

/// Where the command finds the body.
#[derive(Debug)]
pub enum Body<'b> {
    /// In itself.
    Inline,
    /// In the file of this name, in the directory of the script.
    Beside(&'b str),
}

/// The command, with a comment above it and a newline at its end.
pub fn command(
    event: Uuid,
    delivery: &Delivery,
    target: &Target,
    fresh: Option<&Fresh>,
    body: &Body<'_>,
) -> Result<String, NoCommand> {
    if !target.shared_header && fresh.is_some_and(|f| f.signature.is_none()) {
        return Err(NoCommand::Unsigned(delivery.source.clone()));
    }
    let mut text = comment(event, target, fresh);
    let data = match body {
        Body::Inline => {
            let encoded = BASE64.encode(&delivery.body);
            _ = write!(text, "printf '%s' '{encoded}' | base64 -d | ");
            "@-".to_owned()
        }
        Body::Beside(name) => format!("@\"$(dirname -- \"$0\")\"/{name}"),
    };
    text.push_str("curl -q --fail-with-body -sS --globoff -X POST");
    for header in headers(delivery, fresh)? {
        _ = write!(text, " \\\n  -H {header}");
    }
    if target.shared_header {
        text.push_str(" \\\n  -H \"X-Hook-Secret: ${HOOK_SHARED_SECRET:?}\"");
    }
    let url = quoted(format!("{}/hooks/{}/", target.base, delivery.source).as_bytes())?;
    _ = writeln!(
        text,
        " \\\n  --data-binary {data} \\\n  {url}\"${{HOOK_PATH_TOKEN:?}}\""
    );
    Ok(text)
}

fn comment(event: Uuid, target: &Target, fresh: Option<&Fresh>) -> String {
    let set = if target.shared_header {
        "HOOK_PATH_TOKEN and HOOK_SHARED_SECRET"
    } else {
        "HOOK_PATH_TOKEN"
    };
    let how = match fresh {
        None => "as it was captured, with its old id, time and signature.\n# So it is a duplicate \
                 while its id is remembered, and refused as too old if it was signed; see --fresh"
            .to_owned(),
        Some(fresh) if fresh.signature.is_some() => format!(
            "with a new id and signature.\n# Signed at {}; a receiver takes that for {}",
            fresh.at,
            humantime::format_duration(fresh.tolerance)
        ),
        Some(_) => "with a new id and unsigned: no signing secret is configured here.\n# The \
                    receiver must take X-Hook-Secret alone"
            .to_owned(),
    };
    format!("# Delivery {event}, {how}.\n# Needs {set} in the environment.\n")
}

/// Each header as one shell word.
fn headers(delivery: &Delivery, fresh: Option<&Fresh>) -> Result<Vec<String>, NoCommand> {
    let mut words = Vec::new();
    let mut there: Vec<String> = Vec::new();
    for (name, value) in &delivery.headers {
        let lower = name.to_ascii_lowercase();
        let is_of = |families: &[&str]| families.iter().any(|f| lower.starts_with(f));
        if DROPPED.contains(&lower.as_str())
            || is_of(&DROPPED_FAMILIES)
            || (fresh.is_some() && is_of(&IDENTITY))
        {
            continue;
        }
        words.push(header(name, value)?);
        there.push(lower);
    }
    if let Some(fresh) = fresh {
        words.push(header("webhook-id", fresh.id.as_bytes())?);
        if let Some(signature) = &fresh.signature {
            let at = fresh.at.as_seconds().to_string();
            words.push(header("webhook-timestamp", at.as_bytes())?);
            words.push(header("webhook-signature", signature.as_bytes())?);
        }
    }
    for name in CURL_ADDS {
        if !there.iter().any(|known| known == name) {
            // Without a value: curl leaves the header out.
            words.push(quoted(format!("{name}:").as_bytes())?);
        }
    }
    Ok(words)
}

fn header(name: &str, value: &[u8]) -> Result<String, NoCommand> {
    if value.trim_ascii().is_empty() {
        // How curl spells a header with nothing in it.
        return quoted(format!("{name};").as_bytes());
    }
    quoted(&[name.as_bytes(), b": ", value].concat())
}

/// One word of plain ASCII that a POSIX shell reads as exactly `bytes`.
fn quoted(bytes: &[u8]) -> Result<String, NoCommand> {
    let unfit = || NoCommand::Unfit;
    if bytes.iter().any(|b| matches!(b, b'\0' | b'\n' | b'\r')) {
        return Err(unfit());
    }
    let plain = bytes.iter().all(|b| (b' '..=b'~').contains(b));
    if plain {
        let text = std::str::from_utf8(bytes).map_err(|_| unfit())?;
        return match shlex::try_quote(text) {
            Ok(word) => Ok(word.into_owned()),
            Err(_) => Err(unfit()),
        };
    }
    let mut word = String::from("\"$(printf '");
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b" :/._-".contains(byte) {
            word.push(char::from(*byte));
        } else {
            _ = write!(word, "\\{byte:03o}");
        }
    }
    word.push_str("')\"");
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(headers: &[(&str, &[u8])]) -> Delivery {
        Delivery {
            source: "gemini".to_owned(),
            headers: headers
                .iter()
                .map(|(n, v)| ((*n).to_owned(), v.to_vec()))
                .collect(),
            body: b"a\0b".to_vec(),
        }
    }

    fn printed(delivery: &Delivery, fresh: Option<&Fresh>) -> String {
        let target = Target {
            base: "http://127.0.0.1:1".to_owned(),
            shared_header: true,
        };
        command(Uuid::nil(), delivery, &target, fresh, &Body::Inline).unwrap()
    }

    #[test]
    fn connection_and_proxy_headers_stay_behind() {
        let text = printed(
            &delivery(&[
                ("Host", b"h"),
                ("X-Forwarded-For", b"1.2.3.4"),
                ("Content-Length", b"3"),
                ("Content-Type", b"application/json"),
                ("webhook-id", b"old"),
                ("X-Empty", b""),
            ]),
            None,
        );
        assert!(
            text.contains("-H 'Content-Type: application/json'"),
            "{text}"
        );
        assert!(text.contains("-H 'webhook-id: old'"), "{text}");
        assert!(text.contains("-H 'X-Empty;'"), "{text}");
        for gone in ["Host", "Forwarded", "Content-Length"] {
            assert!(!text.contains(gone), "{text}");
        }
        assert!(text.contains("it is a duplicate"));
    }

    #[test]
    fn a_fresh_one_has_one_new_identity() {
        let fresh = Fresh {
            id: "replay-1".to_owned(),
            at: Timestamp::from_millis(1_769_083_200_000),
            signature: Some("v1,abc=".to_owned()),
            tolerance: Duration::from_mins(5),
        };
        let old = delivery(&[("Webhook-Id", b"old"), ("webhook-signature", b"v1,old")]);
        let text = printed(&old, Some(&fresh));
        assert!(!text.contains("old"), "{text}");
        assert!(
            text.contains("-H 'webhook-timestamp: 1769083200'"),
            "{text}"
        );
        assert!(text.contains("takes that for 5m"), "{text}");
    }

    #[test]
    fn words_are_plain_ascii_whatever_is_in_them() {
        for value in [
            &b"it's $(id) `id` \"x\" \\ !"[..],
            b"tab\there",
            b"\xc3\xbc\xff %s",
        ] {
            let word = quoted(value).unwrap();
            assert!(word.bytes().all(|b| (b' '..=b'~').contains(&b)), "{word}");
        }
        assert!(quoted(b"a\nb").is_err());
    }

    #[test]
    fn what_cannot_be_accepted_is_not_printed() {
        let target = Target {
            base: String::new(),
            shared_header: false,
        };
        let fresh = Fresh {
            id: "r".to_owned(),
            at: Timestamp::from_millis(0),
            signature: None,
            tolerance: Duration::ZERO,
        };
        let end = command(
            Uuid::nil(),
            &delivery(&[]),
            &target,
            Some(&fresh),
            &Body::Inline,
        );
        assert_eq!(end, Err(NoCommand::Unsigned("gemini".to_owned())));
    }
}
