//! Standard Webhooks signatures: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
//!
//! Our own verifier, because the published crate takes an empty secret, reads the machine's clock,
//! knows one secret, and refuses bodies that are not UTF-8. The rules:
//!
//! - what is signed is `{id}.{timestamp}.{raw body}`, byte for byte as received;
//! - the id holds no dot, or `a` + `1.{…}` and `a.1` + `{…}` would be the same signed text;
//! - the timestamp has one spelling (`[1-9][0-9]{0,11}`), or a signed one could be respelled;
//! - the signature header lists entries of which one `v1` must match one accepted secret; other
//!   versions are passed over; base64 has one spelling per signature, too;
//! - all secrets are tried on all entries, in constant time;
//! - a repeated header is malformed: proxies disagree on which copy counts.
//!
//! A compact JWS in the same header is another kind of proof and is none of ours: its shape tells.

use http::HeaderMap;

use super::reject::Reject;
use super::signing_secret::SigningSecret;
use crate::base::clock::Timestamp;

/// Name of the id's header.
pub const ID_HEADER: &str = "webhook-id";
/// Name of the timestamp's header.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// Name of the signatures' header.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// Longest `webhook-id`, in bytes.
pub const MAX_ID_BYTES: usize = 256;
/// Longest `webhook-signature`, in bytes.
const MAX_HEADER_BYTES: usize = 4096;
/// Most entries in `webhook-signature`.
const MAX_SIGNATURES: usize = 16;

/// Signature headers of the right form, not yet checked against a body.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Presented {
    id: String,
    timestamp: i64,
    tags: Vec<[u8; 32]>,
}

impl std::fmt::Debug for Presented {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Presented")
            .field("id", &self.id)
            .field("timestamp", &self.timestamp)
            .finish_non_exhaustive()
    }
}

impl Presented {
    /// Reads the three headers. `None` when there is no signature of this kind.
    pub(super) fn read(headers: &HeaderMap) -> Result<Option<Self>, Reject> {
        let Some(first) = sole_signature(headers)? else {
            return Ok(None);
        };
        if is_compact_jws(first) {
            return Ok(None);
        }
        if first.len() > MAX_HEADER_BYTES {
            return Err(Reject::MalformedSignature);
        }
        let id = well_formed_id(headers).ok_or(Reject::MalformedSignature)?;
        let timestamp = single(headers, TIMESTAMP_HEADER)
            .ok_or(Reject::MalformedSignature)
            .and_then(|text| seconds(text).ok_or(Reject::BadTimestamp))?;
        let entries: Vec<&[u8]> = first
            .split(|b| *b == b' ')
            .filter(|entry| !entry.is_empty())
            .collect();
        if entries.len() > MAX_SIGNATURES {
            return Err(Reject::MalformedSignature);
        }
        Ok(Some(Self {
            id: id.to_owned(),
            timestamp,
            tags: entries.into_iter().filter_map(v1_tag).collect(),
        }))
    }

    /// Whether one of the signatures over `body` is by one of `secrets`.
    pub(super) fn is_signed_by(&self, secrets: &[SigningSecret], body: &[u8]) -> bool {
        let mut found = false;
        for secret in secrets {
            found |= secret.signed(self.id.as_bytes(), self.timestamp, body, &self.tags);
        }
        found
    }

    /// When it says it was signed.
    pub(super) fn signed_at(&self) -> Timestamp {
        // Twelve digits of seconds are far inside the range of milliseconds.
        Timestamp::from_millis(self.timestamp.saturating_mul(1000))
    }
}

/// The value of `webhook-signature`, if there is one; a repeated header is malformed.
pub(super) fn sole_signature(headers: &HeaderMap) -> Result<Option<&[u8]>, Reject> {
    let mut values = headers.get_all(SIGNATURE_HEADER).iter();
    let first = values.next().map(http::HeaderValue::as_bytes);
    if values.next().is_some() {
        return Err(Reject::MalformedSignature);
    }
    Ok(first)
}

/// Whether one of the three headers is there more than once.
pub(super) fn is_repeated(headers: &HeaderMap) -> bool {
    [ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER]
        .iter()
        .any(|name| headers.get_all(*name).iter().nth(1).is_some())
}

/// The `webhook-id`, if there is exactly one and it is of the accepted form: 1 to 256 visible ASCII
/// characters without a dot. Beyond that it is opaque.
pub fn well_formed_id(headers: &HeaderMap) -> Option<&str> {
    let id = single(headers, ID_HEADER)?;
    let good = (1..=MAX_ID_BYTES).contains(&id.len())
        && id.iter().all(|b| b.is_ascii_graphic() && *b != b'.');
    good.then(|| std::str::from_utf8(id).ok()).flatten()
}

fn single<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes())
}

fn seconds(text: &[u8]) -> Option<i64> {
    let (first, rest) = text.split_first()?;
    let good =
        matches!(first, b'1'..=b'9') && rest.len() <= 11 && rest.iter().all(u8::is_ascii_digit);
    good.then(|| std::str::from_utf8(text).ok()?.parse().ok())
        .flatten()
}

fn v1_tag(entry: &[u8]) -> Option<[u8; 32]> {
    let encoded = entry.strip_prefix(b"v1,")?;
    let tag = data_encoding::BASE64.decode(encoded).ok()?;
    tag.try_into().ok()
}

/// Whether `value` has the shape of a compact JWS (`eyJ….….…`), which is told apart from a
/// `version,base64` list by its dots and its lack of commas and spaces.
pub(super) fn is_compact_jws(value: &[u8]) -> bool {
    value.starts_with(b"eyJ")
        && value.split(|b| *b == b'.').count() == 3
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
#[path = "standard_webhooks_tests.rs"]
mod tests;
