//! The `results` effect: an operation's outcome, brought home at once.
//!
//! Problem: the provider deletes outcomes after days. A download can be cut short without anybody
//! noticing, can be repeated (the effect is delivered at least once), and can be killed half-way.
//!
//! Design: one folder per operation under the configured directory:
//!
//! | file | content |
//! |---|---|
//! | `operation.json` | the stored payload: state, summary, user metadata |
//! | `responses.jsonl` | a batch's responses, one a line, from its file or its inline answer |
//! | `response.json` | the fetched body of anything else that keeps its output inline |
//! | `media-N.EXT` | generated media, in the order of the operation's URIs |
//! | `manifest.json` | name, state, key, and bytes, SHA-256 and lines of each file |
//!
//! Files appear whole or not at all (see `disk`), the manifest last: where there is a manifest,
//! everything it names is complete and on disk. A repeated attempt that finds the manifest of its
//! own key, and the files it names, is done at once. So is one that tells of another state after a
//! success was saved: a late "overdue" or "gone" must not replace the outcome.
//!
//! Complete means: as many bytes as the server declared, and as many lines as the batch counted
//! requests. A file with other lines is kept as `FILE.unexpected`, because the provider may delete
//! the original before anybody looks, and the attempt is repeated.
//!
//! No URI is fetched as given: its file id goes to the configured base. A download never takes
//! effect anywhere else, so nothing here is ambiguous; right after success the provider may answer
//! 403 or 404 for an output that is not visible yet, so every fault is a retry until the effect is
//! given up by age.

mod disk;
mod naming;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use self::disk::{Folder, Written};
use super::payload::Read;
use super::{Effect, Message};
use crate::domain::effect::Delivery;
use crate::domain::fault::Fault;
use crate::domain::observation::Output;
use crate::domain::operation::{Kind, OperationName, OperationState};
use crate::gemini::wire::inline_results;
use crate::gemini::{FileName, GeminiApi};

const MANIFEST: &str = "manifest.json";
const RESPONSES: &str = "responses.jsonl";

/// Saves outcomes into a directory.
pub(super) struct Results {
    directory: PathBuf,
    gemini: Arc<dyn GeminiApi>,
    timeout: Duration,
}

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    name: OperationName,
    state: String,
    key: String,
    files: Vec<Written>,
}

impl Results {
    /// Saves under `directory`, downloading through `gemini`.
    pub(super) fn new(directory: PathBuf, gemini: Arc<dyn GeminiApi>, timeout: Duration) -> Self {
        Self {
            directory,
            gemini,
            timeout,
        }
    }

    async fn save(&self, message: &Message) -> Result<(), Delivery> {
        let name = message
            .operation
            .as_ref()
            .ok_or_else(|| refused("results carry operations, not alerts"))?;
        let read: Read = serde_json::from_slice(&message.payload)
            .map_err(|_| refused("the stored payload cannot be read"))?;
        let folder = self.directory.join(naming::folder(name));
        let folder = Folder::open(folder, &message.key).await.map_err(of_disk)?;
        let state = read.data.state.clone().unwrap_or_default();
        if is_complete(&folder, &message.key, &state).await {
            return Ok(());
        }
        let mut files = vec![
            folder
                .write("operation.json", &message.payload)
                .await
                .map_err(of_disk)?,
        ];
        files.extend(self.output(&folder, name, &read, &state).await?);
        let manifest = Manifest {
            name: name.clone(),
            state,
            key: message.key.clone(),
            files,
        };
        let manifest = serde_json::to_vec_pretty(&manifest)
            .map_err(|_| refused("the manifest cannot be written as JSON"))?;
        folder.write(MANIFEST, &manifest).await.map_err(of_disk)?;
        Ok(())
    }

    /// Saves whatever output there is.
    async fn output(
        &self,
        folder: &Folder,
        name: &OperationName,
        read: &Read,
        state: &str,
    ) -> Result<Vec<Written>, Delivery> {
        let known = read.data.output();
        let succeeded = state == OperationState::Succeeded.as_str();
        let (output, body) = match known {
            Some(output @ (Output::File { .. } | Output::Media { .. })) => (Some(output), None),
            None if !succeeded => return Ok(Vec::new()),
            // Inline, or a success whose summary does not say where all of it is: the body tells.
            Some(Output::Inline { .. }) | None => {
                let fetched = self
                    .gemini
                    .operation(name)
                    .await
                    .map_err(|f| of_fault(&f))?;
                (known.or(fetched.observation.output), Some(fetched.bytes))
            }
        };
        let counted = read.data.counts().map(|counts| counts.requests);
        let lines = counted.filter(|requests| *requests > 0);
        match (output, body) {
            (Some(Output::File { name: file }), _) => {
                let file = file
                    .parse()
                    .map_err(|_| refused("the output is no file of the API"))?;
                let saved = self
                    .download(folder, &file, Some(RESPONSES), 1, lines)
                    .await?;
                Ok(vec![saved])
            }
            (Some(Output::Media { uris }), _) => self.media(folder, &uris).await,
            (Some(Output::Inline { responses }), Some(body)) if name.kind() == Kind::Batch => {
                let expected = lines.or(Some(responses)).filter(|lines| *lines > 0);
                Ok(vec![inline_batch(folder, &body, expected).await?])
            }
            (_, Some(body)) => {
                let saved = folder
                    .write("response.json", &body)
                    .await
                    .map_err(of_disk)?;
                Ok(vec![saved])
            }
            (_, None) => Ok(Vec::new()),
        }
    }

    /// Saves every media file that can be saved before it complains about one that cannot.
    async fn media(&self, folder: &Folder, uris: &[String]) -> Result<Vec<Written>, Delivery> {
        let mut saved = Vec::new();
        let mut problem = None;
        for (uri, position) in uris.iter().zip(1..) {
            let one = match FileName::from_uri(uri) {
                Ok(file) => self.download(folder, &file, None, position, None).await,
                Err(_) => Err(refused("an output URI names no file of the API")),
            };
            match (one, &problem) {
                (Ok(written), _) => saved.push(written),
                // A fault may pass, a URI without a file never will: the first is worth retrying.
                (Err(new), None | Some(Delivery::Refused { .. })) => problem = Some(new),
                (Err(_), Some(_)) => {}
            }
        }
        problem.map_or(Ok(saved), Err)
    }

    /// Streams one file into the folder, and checks its length and its lines. Without a file name
    /// it is media, named by its position and media type.
    async fn download(
        &self,
        folder: &Folder,
        file: &FileName,
        save_as: Option<&str>,
        position: u32,
        expected_lines: Option<u64>,
    ) -> Result<Written, Delivery> {
        let mut download = self.gemini.download(file).await.map_err(|f| of_fault(&f))?;
        let media_name = || {
            let extension = naming::extension(download.media_type.as_deref());
            format!("media-{position}.{extension}")
        };
        let save_as = save_as.map_or_else(media_name, ToOwned::to_owned);
        let mut part = folder.part().await.map_err(of_disk)?;
        while let Some(chunk) = download.bytes.next().await {
            let chunk = chunk.map_err(|f| of_fault(&f))?;
            part.push(&chunk).await.map_err(of_disk)?;
        }
        if let Some(declared) = download.length
            && declared != part.bytes()
        {
            let got = part.bytes();
            return Err(retry(format!(
                "the download ended at {got} of {declared} bytes"
            )));
        }
        folder.settle(part, &save_as, expected_lines).await
    }
}

/// Writes a batch's inline responses, one a line.
async fn inline_batch(
    folder: &Folder,
    body: &Bytes,
    expected: Option<u64>,
) -> Result<Written, Delivery> {
    let lines = inline_results(Kind::Batch, body).map_err(|f| of_fault(&f))?;
    let mut part = folder.part().await.map_err(of_disk)?;
    for line in lines {
        part.push(line.get().as_bytes()).await.map_err(of_disk)?;
        part.push(b"\n").await.map_err(of_disk)?;
    }
    folder.settle(part, RESPONSES, expected).await
}

impl Folder {
    /// Keeps a finished part under its name if it has as many lines as expected.
    async fn settle(
        &self,
        part: disk::Part,
        save_as: &str,
        expected_lines: Option<u64>,
    ) -> Result<Written, Delivery> {
        let unexpected = format!("{save_as}.unexpected");
        match expected_lines {
            Some(expected) if expected != part.lines() => {
                let got = part.lines();
                self.keep(part, &unexpected).await.map_err(of_disk)?;
                Err(retry(format!(
                    "the output has {got} lines, the batch counted {expected} requests; kept as {unexpected}"
                )))
            }
            _ => {
                let written = self.keep(part, save_as).await.map_err(of_disk)?;
                self.forget(&unexpected).await;
                Ok(written)
            }
        }
    }
}

/// Whether nothing is left to save: this very attempt was made before, or it tells of an earlier
/// state than the success that was saved already.
async fn is_complete(folder: &Folder, key: &str, state: &str) -> bool {
    let Some(bytes) = folder.read(MANIFEST).await else {
        return false;
    };
    let Ok(manifest) = serde_json::from_slice::<Manifest>(&bytes) else {
        return false;
    };
    let success = OperationState::Succeeded.as_str();
    let covers = manifest.key == key || (manifest.state == success && state != success);
    covers && folder.has_all(&manifest.files).await
}

fn refused(why: &str) -> Delivery {
    Delivery::Refused {
        why: why.to_owned(),
    }
}

fn retry(why: String) -> Delivery {
    Delivery::Retry { after: None, why }
}

fn of_fault(fault: &Fault) -> Delivery {
    Delivery::Retry {
        after: fault.retry_after(),
        why: fault.to_string(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn of_disk(error: io::Error) -> Delivery {
    retry(format!(
        "the results could not be written ({})",
        error.kind()
    ))
}

#[async_trait]
impl Effect for Results {
    async fn deliver(&self, message: &Message) -> Delivery {
        match tokio::time::timeout(self.timeout, self.save(message)).await {
            Ok(Ok(())) => Delivery::Done,
            Ok(Err(delivery)) => delivery,
            Err(_) => retry("the download did not end in time".to_owned()),
        }
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn kind(&self) -> &'static str {
        "results"
    }
}
