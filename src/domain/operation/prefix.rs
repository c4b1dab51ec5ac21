//! The beginning of a name, as somebody types it into a search.

use std::str::FromStr;

use super::name::MAX_NAME_BYTES;

/// What operations are searched by: the beginning of the last segment or, with a slash in it, of the
/// whole name. Case counts. It is a prefix so that an index can serve it, however long the ledger is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePrefix(String);

/// The text begins no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be the beginning of an operation's last segment or, with a slash in it, of its whole name: \
     1 to 256 characters from A-Z a-z 0-9 . _ ~ - /"
)]
pub struct NotANamePrefix;

impl NamePrefix {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What sorts behind everything that begins so: no name has a character above `~`.
    pub fn end(&self) -> String {
        format!("{}\u{7f}", self.0)
    }

    /// Whether it begins a whole name, not a last segment.
    pub fn is_of_whole_name(&self) -> bool {
        self.0.contains('/')
    }

    /// The beginning of the last segment that every name with this beginning has, when the shapes of
    /// names tell.
    pub fn segment(&self) -> Option<Self> {
        let Some((parent, rest)) = self.0.rsplit_once('/') else {
            return Some(self.clone());
        };
        let told = matches!(parent, "batches" | "interactions") || parent.ends_with("/operations");
        (told && !rest.is_empty()).then(|| Self(rest.to_owned()))
    }
}

impl FromStr for NamePrefix {
    type Err = NotANamePrefix;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let legal = (1..=MAX_NAME_BYTES).contains(&s.len())
            && s.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._~-/".contains(&b));
        legal.then(|| Self(s.to_owned())).ok_or(NotANamePrefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_tells_its_segment_when_the_shape_of_names_does() {
        let segment = |text: &str| {
            let prefix: NamePrefix = text.parse().unwrap();
            prefix.segment().map(|s| s.as_str().to_owned())
        };
        assert_eq!(segment("ab"), Some("ab".to_owned()));
        assert_eq!(segment("batches/ab"), Some("ab".to_owned()));
        assert_eq!(segment("models/m/operations/x"), Some("x".to_owned()));
        assert_eq!(segment("batches/"), None);
        // `operations` may be a model, too, and `x` the beginning of the word.
        assert_eq!(segment("models/x"), None);
        assert_eq!(segment("operations/x"), None);
    }

    #[test]
    fn what_begins_no_name_is_refused() {
        for text in ["", "a b", "ä", "%", "a*", &"a".repeat(257)] {
            assert!(text.parse::<NamePrefix>().is_err(), "{text}");
        }
    }
}
