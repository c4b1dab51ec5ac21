//! A verifier as a service has it, and headers as a listener makes them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use hookledger::base::clock::Timestamp;
use hookledger::config::{self, Inputs, Purpose, Settings};
use hookledger::verify::jwks::{NoKey, RsaKey};
use hookledger::verify::{KeySource, Reject, Verified, Verifier};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

pub(super) const PATH_TOKEN: &str = "a-path-token-only-for-tests-0123456789";
/// The moment at which everything here happens, seconds.
pub(super) const NOW: i64 = 1_769_083_200;
/// How far a signed timestamp may be from it, seconds.
pub(super) const TOLERANCE: i64 = 300;

/// Answers with the one key it has, by its name.
#[derive(Debug)]
pub(super) struct OneKey {
    pub(super) kid: String,
    pub(super) key: RsaKey,
}

#[async_trait]
impl KeySource for OneKey {
    async fn key(&self, _: &Url, kid: &str) -> Result<RsaKey, NoKey> {
        if kid == self.kid {
            Ok(self.key.clone())
        } else {
            Err(NoKey::Unknown)
        }
    }
}

/// Settings with a source `gemini`, of which `source` is the table.
pub(super) fn settings(source: &str) -> Settings {
    let text = format!(
        "[hooks]\npath_token = \"{PATH_TOKEN}\"\ntolerance = \"{TOLERANCE}s\"\n[sources.gemini]\n{source}"
    );
    let loaded = config::load(&Inputs::new().with_text(text), Purpose::Client);
    loaded.unwrap().settings
}

pub(super) fn verifier(settings: &Settings, keys: impl KeySource + 'static) -> Verifier {
    let keys: Arc<dyn KeySource> = Arc::new(keys);
    Verifier::new(&settings.hooks, &settings.sources, &keys).unwrap()
}

/// Both gates, at [`NOW`].
pub(super) fn verify(
    verifier: &Verifier,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Verified, Reject> {
    let admitted = verifier.admit("gemini", PATH_TOKEN, None, headers)?;
    let now = Timestamp::from_millis(NOW * 1000);
    admitted
        .verify(Bytes::copy_from_slice(body), now)
        .now_or_never()
        // Its keys are at hand, so it never waits.
        .unwrap()
}

/// Lines of `Name: value` up to an empty line, and the body behind it. What no listener would take
/// for a header is left out.
pub(super) fn request(input: &[u8]) -> (HeaderMap, &[u8]) {
    let mut headers = HeaderMap::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (line, behind) = super::first_line(rest);
        rest = behind;
        if line.is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|b| *b == b':') else {
            continue;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    (headers, rest)
}
