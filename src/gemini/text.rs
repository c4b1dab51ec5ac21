//! Foreign text made fit for a log line, an error or a summary.
//!
//! Problem: the provider's messages end in logs, tables and on pages. They may hold line breaks,
//! terminal escapes and, in some of Google's own messages (`Consumer 'api_key:…'`), the key.
//!
//! Design: [`clean`] makes one bounded line and blots out whatever looks like a Google key.
//! [`Redact`] does the same for the values this process knows to be secret.

use std::fmt;

use crate::base::secret::Secret;

const BLOT: &str = "[secret]";
const CUT: char = '…';

/// Longest text repeated from the provider in a fault, in characters.
pub const MAX_FAULT_CHARS: usize = 200;

/// `text` as one line of at most `max` characters, control and direction characters escaped,
/// anything that looks like a Google API key blotted out.
pub fn clean(text: &str, max: usize) -> String {
    // Nothing behind this many characters can be shown, so a huge message costs no more than a
    // long one; a key at the cut is still seen whole or cut to less than a key.
    let head: String = text.chars().take(max.saturating_mul(2) + 64).collect();
    bounded(&blot_keys(&head), max)
}

fn bounded(text: &str, max: usize) -> String {
    let mut shown = String::new();
    let mut left = max;
    for c in text.trim().chars() {
        let piece: String = if is_unsafe(c) {
            c.escape_default().collect()
        } else {
            c.into()
        };
        let width = piece.chars().count();
        if width > left {
            if left == 0 {
                shown.pop();
            }
            shown.push(CUT);
            return shown;
        }
        left -= width;
        shown.push_str(&piece);
    }
    shown
}

/// Control characters, and those that reorder or hide what stands beside them.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Blots out `AIza…` keys and whatever follows `key=` or `api_key:`.
fn blot_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, lead)) = ["AIza", "api_key:", "key="]
        .iter()
        .filter_map(|lead| rest.find(lead).map(|at| (at, *lead)))
        .min_by_key(|found| found.0)
    {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let from = from.strip_prefix(lead).unwrap_or(from);
        if lead != "AIza" {
            out.push_str(lead);
        }
        out.push_str(BLOT);
        rest = from.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_-.".contains(c));
    }
    out.push_str(rest);
    out
}

/// The secrets of this process, to be blotted out of texts.
#[derive(Clone, Default)]
pub struct Redact(Vec<Secret>);

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redact({})", self.0.len())
    }
}

impl Redact {
    /// Shortest value blotted out: a shorter one would blot out ordinary words.
    const MIN_BYTES: usize = 6;

    /// Blots out each of `secrets`.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let kept = secrets
            .into_iter()
            .filter(|s| s.expose().len() >= Self::MIN_BYTES);
        Self(kept.collect())
    }

    /// [`clean`] at [`MAX_FAULT_CHARS`], without any of the secrets.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), BLOT);
            }
        }
        clean(&text, MAX_FAULT_CHARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_bounded_line() {
        assert_eq!(clean("  a\nb\u{1b}[31m ", 50), "a\\nb\\u{1b}[31m");
        assert_eq!(clean("right\u{202e}left", 50), "right\\u{202e}left");
        let long = clean(&"ä".repeat(300), 200);
        assert_eq!(long.chars().count(), 200);
        assert!(long.ends_with('…'), "{long}");
        assert_eq!(clean(&"ä".repeat(200), 200), "ä".repeat(200));
        assert!(clean(&"\n".repeat(300), 9).chars().count() <= 9);
    }

    #[test]
    fn keys_are_blotted_out() {
        let key = format!("AIza{}", "Sy_-9".repeat(7));
        for text in [
            format!("Consumer 'api_key:{key}' has been suspended."),
            format!("bad key {key}"),
            format!("GET /v1beta/x?key={key}&y"),
            format!("{}{key}", "x".repeat(180)),
        ] {
            let shown = clean(&text, 200);
            assert!(!shown.contains("Sy_-9"), "{shown}");
        }
        assert_eq!(
            clean("Consumer 'api_key:AQ.x1' is", 99),
            "Consumer 'api_key:[secret]' is"
        );
    }

    #[test]
    fn known_secrets_are_blotted_out_whatever_their_shape() {
        let redact = Redact::new([Secret::new("odd value/42"), Secret::new("no")]);
        assert_eq!(redact.clean("not odd value/42, no"), "not [secret], no");
        assert_eq!(format!("{redact:?}"), "Redact(1)");
    }
}
