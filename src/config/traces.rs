//! `[traces]`: where spans are sent.

use super::check::is_loopback;
use super::read::Reader;
use super::sections::headers;
use super::settings::Traces;

/// Longest name of a service.
const MAX_NAME: usize = 128;
/// Headers that say how the message is written.
const OWN: [&str; 2] = ["content-type", "content-encoding"];

/// Reads the section.
pub(super) fn traces(r: &mut Reader<'_>) -> Traces {
    let endpoint = r.url("traces.endpoint");
    if let Some(url) = &endpoint
        && url.path() == "/"
    {
        let what = "has no path, and spans are posted to this very address";
        let fix = "write it whole, as in http://127.0.0.1:4318/v1/traces";
        r.problem("traces.endpoint", what, fix);
    }
    let example = "a name such as hookledger";
    let service_name = r.string("traces.service_name", "a text", example);
    let legal = (1..=MAX_NAME).contains(&service_name.trim().len())
        && !service_name.chars().any(char::is_control);
    if !legal && r.sound(&["traces.service_name"]) {
        let what = "is not a name of 1 to 128 bytes";
        r.problem("traces.service_name", what, format!("write {example}"));
    }
    let headers = headers(r, "traces.headers");
    for name in OWN {
        if headers.contains_key(name) {
            let key = format!("traces.headers.{name}");
            r.problem(&key, "is written by hookledger itself", "leave it out");
        }
    }
    Traces {
        endpoint,
        headers,
        service_name,
        sample_percent: r.count("traces.sample_percent", 1, 100),
    }
}

/// What is legal and unwise.
pub(super) fn check(r: &mut Reader<'_>, s: &Traces) {
    match &s.endpoint {
        Some(url) if url.scheme() == "http" && !is_loopback(url) && !s.headers.is_empty() => {
            r.warn(
                "traces.endpoint",
                "is plain http: traces.headers travel unencrypted",
            );
        }
        None if !s.headers.is_empty() => {
            r.warn("traces.headers", "are set, and no traces.endpoint is");
        }
        _ => {}
    }
}
