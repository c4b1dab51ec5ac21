//! Floor 2: the Gemini API, asked and never believed without looking.
//!
//! [`GeminiApi`] is the seam. Everything above it decides on [`Observation`] and [`Fault`]; the wire
//! shapes stay in this room. A name reaches a URL only as an [`OperationName`] or a [`FileName`],
//! both of which only their parsers can make.

pub mod client;
mod download;
pub mod error;
pub mod glance;
pub mod limit;
pub mod list;
pub mod text;
pub mod webhooks;
pub mod wire;

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;

use crate::domain::fault::Fault;
use crate::domain::observation::Observation;
use crate::domain::operation::OperationName;

/// A file's resource name `files/{id}`, safe to put into a URL path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName(String);

/// The text names no file of the API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a file of the API: expected files/ID or a URI whose path holds one")]
pub struct NotAFile;

impl FileName {
    /// `files/{id}`
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes the file id out of a URI the provider gave (`…/v1beta/files/{id}:download?alt=media`),
    /// or of a bare `files/{id}`. The host is thrown away: downloads go to the configured base.
    pub fn from_uri(uri: &str) -> Result<Self, NotAFile> {
        let path = match url::Url::parse(uri) {
            Ok(url) if matches!(url.scheme(), "https" | "http") => url.path().to_owned(),
            Ok(_) => return Err(NotAFile),
            Err(_) => uri.to_owned(),
        };
        let (_, file) = path.rsplit_once("files/").ok_or(NotAFile)?;
        format!("files/{}", file.strip_suffix(":download").unwrap_or(file)).parse()
    }
}

impl FromStr for FileName {
    type Err = NotAFile;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        // Batch output ids are `batch-` and 36 characters: longer than the documented file rule.
        let id = s.strip_prefix("files/").ok_or(NotAFile)?;
        let legal = (1..=128).contains(&id.len())
            && id
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        legal.then(|| Self(s.to_owned())).ok_or(NotAFile)
    }
}

/// The bytes of a file, as they arrive.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>;

/// A download that has begun.
pub struct Download {
    /// The declared length, when the server declared one.
    pub length: Option<u64>,
    /// The declared media type.
    pub media_type: Option<String>,
    /// The bytes.
    pub bytes: ByteStream,
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// An operation's body as it was fetched, for effects that need more than the summary.
#[derive(Debug, Clone)]
pub struct FetchedBody {
    /// What it means.
    pub observation: Observation,
    /// The body, as it came.
    pub bytes: Bytes,
}

/// The Gemini API.
#[async_trait]
pub trait GeminiApi: Send + Sync + fmt::Debug {
    /// Asks for an operation's authoritative state.
    async fn operation(&self, name: &OperationName) -> Result<FetchedBody, Fault>;

    /// Asks for something every working key may have (a list of one), to tell a bad key from a bad
    /// name.
    async fn probe(&self) -> Result<(), Fault>;

    /// Begins the download of a file's bytes.
    async fn download(&self, file: &FileName) -> Result<Download, Fault>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_is_found_in_what_the_provider_gives() {
        for (given, name) in [
            ("files/batch-3a96", "files/batch-3a96"),
            (
                "https://generativelanguage.googleapis.com/v1beta/files/04pm:download?alt=media",
                "files/04pm",
            ),
            ("http://127.0.0.1:9/download/v1/files/a", "files/a"),
        ] {
            let found = FileName::from_uri(given);
            assert_eq!(found.as_ref().map(FileName::as_str), Ok(name));
        }
        for given in [
            "",
            "files/",
            "files/A",
            "files/a/b",
            "files/..",
            "files/a?x=1",
            "files/a%2fb",
            "gs://bucket/files/a",
            "https://x.example/files/",
            "https://x.example/?files/a",
        ] {
            assert_eq!(FileName::from_uri(given), Err(NotAFile), "{given}");
        }
    }
}
