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
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use data_encoding::BASE64;
use serde_json::Value;
use url::Url;
use uuid::Uuid;

use super::client;
use super::failure::Failure;
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
pub(super) struct Delivery {
    pub(super) source: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

impl Delivery {
    /// Reads the document of an event.
    pub(super) fn read(event: &Value) -> Result<Self, Failure> {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let decode = |text: &str| BASE64.decode(text.as_bytes()).ok();
        let header = |pair: &Value| {
            let name = pair.get(0)?.as_str()?.to_owned();
            let value = pair.get(1)?;
            let bytes = match value.as_str() {
                Some(text) => text.as_bytes().to_vec(),
                None => decode(value.get("base64")?.as_str()?)?,
            };
            Some((name, bytes))
        };
        let read = || {
            Some(Self {
                source: text("source")?.to_owned(),
                headers: event
                    .get("headers")?
                    .as_array()?
                    .iter()
                    .map(header)
                    .collect::<Option<_>>()?,
                body: decode(text("body_base64")?)?,
            })
        };
        read().ok_or_else(|| Failure::failed("the event is not in the form this version knows"))
    }
}

/// Where it is sent to.
#[derive(Debug)]
pub(super) struct Target {
    /// Without a slash at its end.
    base: String,
    /// Whether the source knows the shared header.
    shared_header: bool,
}

impl Target {
    /// `base`, else the public URL, else the listener as this machine reaches it.
    pub(super) fn of(
        settings: &Settings,
        source: &str,
        base: Option<&str>,
    ) -> Result<Self, Failure> {
        let base = match (base, &settings.server.public_url) {
            (Some(text), _) => Url::parse(text)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https") && url.query().is_none())
                .ok_or_else(|| {
                    Failure::usage("--url takes an address such as http://127.0.0.1:8080")
                })?,
            (None, Some(url)) => url.clone(),
            (None, None) => client::base_of(settings.server.listen)?,
        };
        let base = base.as_str().trim_end_matches('/');
        // As somebody gives it who copies the front of a webhook's address.
        let base = base.strip_suffix("/hooks").unwrap_or(base);
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            shared_header: settings.sources.get(source).is_none_or(|s| s.shared_header),
        })
    }
}

/// A new identity.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) id: String,
    pub(super) at: Timestamp,
    /// Absent when no signing secret is known here.
    pub(super) signature: Option<String>,
    /// How long the receiver takes `at` for now.
    pub(super) tolerance: Duration,
}

/// Where the command finds the body.
#[derive(Debug)]
pub(super) enum Body<'b> {
    /// In itself.
    Inline,
    /// In the file of this name, in the directory of the script.
    Beside(&'b str),
}

/// The command, with a comment above it and a newline at its end.
pub(super) fn command(
    event: Uuid,
    delivery: &Delivery,
    target: &Target,
    fresh: Option<&Fresh>,
    body: &Body<'_>,
) -> Result<String, Failure> {
    if !target.shared_header && fresh.is_some_and(|f| f.signature.is_none()) {
        return Err(Failure::usage(format!(
            "the source {} takes only signed deliveries, and no signing secret is configured here; \
             set sources.{}.signing_secrets",
            delivery.source, delivery.source
        )));
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
fn headers(delivery: &Delivery, fresh: Option<&Fresh>) -> Result<Vec<String>, Failure> {
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

fn header(name: &str, value: &[u8]) -> Result<String, Failure> {
    if value.trim_ascii().is_empty() {
        // How curl spells a header with nothing in it.
        return quoted(format!("{name};").as_bytes());
    }
    quoted(&[name.as_bytes(), b": ", value].concat())
}

/// One word of plain ASCII that a POSIX shell reads as exactly `bytes`.
fn quoted(bytes: &[u8]) -> Result<String, Failure> {
    let unfit = || Failure::failed("a header holds a byte that no header can hold");
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

/// Writes a file that only its owner may read.
pub(super) fn write_file(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mut file = std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)?;
    // The mode above is only for a new file.
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        assert_eq!(end.unwrap_err().code(), 2);
    }

    #[test]
    fn documents_of_another_form_are_refused() {
        let good = json!({"source": "gemini", "headers": [["a", {"base64": "/w=="}]], "body_base64": "AA=="});
        let read = Delivery::read(&good).unwrap();
        assert_eq!(read.headers, [("a".to_owned(), vec![0xff])]);
        assert_eq!(read.body, [0]);
        for missing in ["source", "headers", "body_base64"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(missing);
            assert!(Delivery::read(&bad).is_err());
        }
    }
}
