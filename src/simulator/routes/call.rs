//! From a method and a path to the call that is meant.
//!
//! Google's paths end in `:verb` behind a name, which no router of path segments expresses; reading
//! them here, in one table, also keeps `/v1`, `/v1beta`, `/upload/…` and `/download/…` alike.

use super::error::Envelope;

/// A call of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call<'a> {
    CreateBatch {
        model: &'a str,
        embed: bool,
    },
    ListBatches,
    GetBatch(&'a str),
    CancelBatch(&'a str),
    DeleteBatch(&'a str),
    Upload {
        version: &'a str,
    },
    ListFiles,
    GetFile(&'a str),
    DownloadFile(&'a str),
    DeleteFile(&'a str),
    CreateVideo {
        model: &'a str,
    },
    GetVideo {
        model: &'a str,
        id: &'a str,
    },
    CreateInteraction,
    GetInteraction(&'a str),
    CancelInteraction(&'a str),
    DeleteInteraction(&'a str),
    ListModels,
    GetModel(&'a str),
    CreateWebhook,
    ListWebhooks,
    GetWebhook(&'a str),
    UpdateWebhook(&'a str),
    DeleteWebhook(&'a str),
    PingWebhook(&'a str),
    RotateSecret(&'a str),
    /// The keys of dynamic signing; it asks for no API key.
    Jwks,
}

impl<'a> Call<'a> {
    /// The call behind a method and a path; `None` is a path Google does not know.
    pub(crate) fn parse(method: &str, path: &'a str) -> Option<Self> {
        if (method, path) == ("GET", "/.well-known/jwks.json") {
            return Some(Self::Jwks);
        }
        let path = path.strip_prefix('/')?;
        let (place, path) = match path.split_once('/')? {
            (place @ ("upload" | "download"), rest) => (place, rest),
            _ => ("", path),
        };
        let (version, path) = path.split_once('/')?;
        if !matches!(version, "v1" | "v1beta") {
            return None;
        }
        let segments: Vec<&str> = path.split('/').collect();
        match place {
            "upload" => {
                let upload = (method, &segments[..]) == ("POST", &["files"]);
                upload.then_some(Self::Upload { version })
            }
            "download" => match (method, &segments[..]) {
                ("GET", ["files", id]) => Some(Self::DownloadFile(id.strip_suffix(":download")?)),
                _ => None,
            },
            _ => Self::of_segments(method, &segments),
        }
    }

    fn of_segments(method: &str, segments: &[&'a str]) -> Option<Self> {
        Some(match (method, segments) {
            ("GET", ["models"]) => Self::ListModels,
            ("GET", ["models", model]) => Self::GetModel(model),
            ("GET", ["models", model, "operations", id]) => Self::GetVideo { model, id },
            ("POST", ["models", action]) => {
                let (model, verb) = action.rsplit_once(':')?;
                match verb {
                    "batchGenerateContent" => Self::CreateBatch {
                        model,
                        embed: false,
                    },
                    "asyncBatchEmbedContent" => Self::CreateBatch { model, embed: true },
                    "predictLongRunning" => Self::CreateVideo { model },
                    _ => return None,
                }
            }
            ("GET", ["batches"]) => Self::ListBatches,
            ("GET", ["batches", id]) => Self::GetBatch(id),
            ("POST", ["batches", action]) => Self::CancelBatch(action.strip_suffix(":cancel")?),
            ("DELETE", ["batches", id]) => Self::DeleteBatch(id),
            ("GET", ["files"]) => Self::ListFiles,
            ("GET", ["files", id]) => match id.strip_suffix(":download") {
                Some(id) => Self::DownloadFile(id),
                None => Self::GetFile(id),
            },
            ("DELETE", ["files", id]) => Self::DeleteFile(id),
            ("POST", ["interactions"]) => Self::CreateInteraction,
            ("GET", ["interactions", id]) => Self::GetInteraction(id),
            ("POST", ["interactions", id, "cancel"]) => Self::CancelInteraction(id),
            ("DELETE", ["interactions", id]) => Self::DeleteInteraction(id),
            (_, ["webhooks"] | ["webhooks", _]) => return Self::of_webhooks(method, segments),
            _ => return None,
        })
    }

    fn of_webhooks(method: &str, segments: &[&'a str]) -> Option<Self> {
        Some(match (method, segments) {
            ("POST", ["webhooks"]) => Self::CreateWebhook,
            ("GET", ["webhooks"]) => Self::ListWebhooks,
            ("GET", ["webhooks", id]) => Self::GetWebhook(id),
            ("PATCH", ["webhooks", id]) => Self::UpdateWebhook(id),
            ("DELETE", ["webhooks", id]) => Self::DeleteWebhook(id),
            ("POST", ["webhooks", action]) => match action.rsplit_once(':')? {
                (id, "ping") => Self::PingWebhook(id),
                (id, "rotateSigningSecret") => Self::RotateSecret(id),
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// The envelope in which errors of this path come.
pub(crate) fn envelope(path: &str) -> Envelope {
    if matches!(path.split('/').nth(2), Some("interactions" | "webhooks")) {
        Envelope::Interactions
    } else {
        Envelope::Classic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_the_clients_send_is_understood_under_both_versions() {
        for version in ["v1", "v1beta"] {
            let table = [
                ("GET", "/V/batches", Call::ListBatches),
                ("GET", "/V/batches/a1", Call::GetBatch("a1")),
                ("POST", "/V/batches/a1:cancel", Call::CancelBatch("a1")),
                (
                    "GET",
                    "/V/files/batch-a1:download",
                    Call::DownloadFile("batch-a1"),
                ),
                (
                    "GET",
                    "/download/V/files/a:download",
                    Call::DownloadFile("a"),
                ),
                ("POST", "/upload/V/files", Call::Upload { version }),
                ("POST", "/V/webhooks", Call::CreateWebhook),
                ("PATCH", "/V/webhooks/w", Call::UpdateWebhook("w")),
                ("POST", "/V/webhooks/w:ping", Call::PingWebhook("w")),
                (
                    "POST",
                    "/V/webhooks/w:rotateSigningSecret",
                    Call::RotateSecret("w"),
                ),
                (
                    "POST",
                    "/V/models/veo-3.1:predictLongRunning",
                    Call::CreateVideo { model: "veo-3.1" },
                ),
                (
                    "GET",
                    "/V/models/veo-3.1/operations/x",
                    Call::GetVideo {
                        model: "veo-3.1",
                        id: "x",
                    },
                ),
                (
                    "POST",
                    "/V/interactions/v1_a-B/cancel",
                    Call::CancelInteraction("v1_a-B"),
                ),
            ];
            for (method, path, call) in table {
                let path = path.replace("/V/", &format!("/{version}/"));
                assert_eq!(Call::parse(method, &path), Some(call), "{method} {path}");
            }
        }
    }

    #[test]
    fn anything_else_is_unknown() {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/v2/batches"),
            ("PUT", "/v1/batches/a"),
            ("POST", "/v1/models/m:generateAnswer"),
            ("GET", "/download/v1/files/a"),
            ("GET", "/v1/batches/a/b"),
        ] {
            assert_eq!(Call::parse(method, path), None, "{method} {path}");
        }
    }
}
