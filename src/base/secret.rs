//! A value that must never be printed.
//!
//! [`Secret`] has no `Display` and no `Serialize`, and its `Debug` says only that there is one, so a
//! configuration or an error can be logged whole. It is wiped when dropped.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// Shortest accepted token or shared secret, in bytes.
pub const MIN_SECRET_BYTES: usize = 24;
/// Fewest distinct characters in an accepted token or shared secret.
pub const MIN_DISTINCT_CHARS: usize = 8;

/// A secret text.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes the text as it is.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The text itself, for the one call that needs it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Why this is too weak to guard a door, if it is. The answer never repeats the secret.
    pub fn weakness(&self) -> Option<Weakness> {
        let text = self.expose();
        if text.len() < MIN_SECRET_BYTES {
            return Some(Weakness::Short { bytes: text.len() });
        }
        let distinct = text
            .chars()
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        (distinct < MIN_DISTINCT_CHARS).then_some(Weakness::Monotone { distinct })
    }
}

/// What is wrong with a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Weakness {
    /// Too few bytes to resist guessing.
    #[error("is only {bytes} bytes long; at least {MIN_SECRET_BYTES} are needed")]
    Short {
        /// Its length.
        bytes: usize,
    },
    /// Long, but made of very few different characters.
    #[error("has only {distinct} different characters; at least {MIN_DISTINCT_CHARS} are needed")]
    Monotone {
        /// How many different characters it has.
        distinct: usize,
    },
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_the_text() {
        let shown = format!("{:?}", Some(Secret::new("correct-horse-battery-staple")));
        assert_eq!(shown, "Some([secret])");
    }

    #[test]
    fn weak_secrets_say_why() {
        assert_eq!(
            Secret::new("short").weakness(),
            Some(Weakness::Short { bytes: 5 })
        );
        assert_eq!(
            Secret::new("ab".repeat(20)).weakness(),
            Some(Weakness::Monotone { distinct: 2 })
        );
        assert_eq!(Secret::new("correct-horse-battery-staple").weakness(), None);
    }
}
