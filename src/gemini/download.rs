//! Downloads: the one call that may be redirected.
//!
//! Problem: the file endpoint may redirect to a storage host, and the HTTP client would take the key
//! along to wherever it is sent (it strips `authorization`, not `x-goog-api-key`).
//!
//! Design: redirects are followed by hand, at most [`MAX_REDIRECTS`] times, only to the configured
//! download origin or over https to Google's file hosts or the base's own host. Whether the key goes
//! along is decided for each hop anew by [`HttpGemini::send`], from the origin. A video may take
//! longer than any total timeout, so only silence ends a stream.

use futures_util::StreamExt;
use http::{HeaderMap, StatusCode, header};
use reqwest::Response;
use url::Url;

use super::client::HttpGemini;
use super::{Download, FileName};
use crate::domain::fault::Fault;

/// Most redirects followed for one download.
const MAX_REDIRECTS: usize = 3;
/// Domains whose hosts may serve a redirected download.
const FILE_DOMAINS: [&str; 2] = [".googleapis.com", ".googleusercontent.com"];

fn refused(what: &str) -> Fault {
    Fault::Unavailable {
        retry_after: None,
        what: format!("download: {what}"),
    }
}

impl HttpGemini {
    pub(super) async fn begin_download(&self, file: &FileName) -> Result<Download, Fault> {
        let path = format!("{}:download?alt=media", file.as_str());
        let mut url = self.download_base.join(&path)?;
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send(url.clone(), HeaderMap::new(), None).await?;
            let status = answer.status();
            if status == StatusCode::OK {
                return Ok(self.stream(answer));
            }
            let Some(location) = location(&answer) else {
                return Err(self.refusal(answer).await);
            };
            url = self.follow(&url, &location)?;
        }
        Err(refused("too many redirects"))
    }

    /// Where `location` leads from `from`, when that is a place downloads may come from.
    fn follow(&self, from: &Url, location: &str) -> Result<Url, Fault> {
        let to = from
            .join(location)
            .map_err(|_| refused("redirected to what is no URL"))?;
        let host = to.host_str().unwrap_or_default();
        let of_google = FILE_DOMAINS.iter().any(|domain| host.ends_with(domain));
        let own = [&self.base, &self.download_base]
            .iter()
            .any(|base| base.url.host_str() == Some(host));
        let bare = to.username().is_empty() && to.password().is_none();
        let safe =
            self.download_base.is_origin_of(&to) || (to.scheme() == "https" && (of_google || own));
        if bare && safe {
            Ok(to)
        } else {
            Err(refused("redirected to a host that is not allowed"))
        }
    }

    fn stream(&self, answer: Response) -> Download {
        let header_text = |name| {
            let value: Option<&http::HeaderValue> = answer.headers().get(name);
            value.and_then(|v| v.to_str().ok()).map(str::to_owned)
        };
        let trouble = self.troubles();
        Download {
            length: answer.content_length(),
            media_type: header_text(header::CONTENT_TYPE),
            bytes: Box::pin(
                answer
                    .bytes_stream()
                    .map(move |chunk| chunk.map_err(&trouble)),
            ),
        }
    }
}

/// The target of an answer that redirects a GET.
fn location(answer: &Response) -> Option<String> {
    let redirects = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let value = answer
        .headers()
        .get(header::LOCATION)
        .filter(|_| redirects)?;
    value.to_str().ok().map(str::to_owned)
}
