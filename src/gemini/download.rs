//! Downloads: the one call that may be redirected.
//!
//! Problem: the file endpoint may redirect to a storage host, and the HTTP client would take the key
//! along to wherever it is sent (it strips `authorization`, not `x-goog-api-key`).
//!
//! Design: redirects are followed by hand, at most [`MAX_REDIRECTS`] times, only to the configured
//! download origin or over https to Google's file hosts or the base's own host. Whether the key goes
//! along is decided for each hop anew by
//! `HttpGemini::headers_for`, from the origin. A video may take
//! longer than any total timeout, so only silence ends a stream.

use futures_util::StreamExt;
use http::{HeaderMap, Method, StatusCode, header};
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
            let (to, headers) = (url.clone(), HeaderMap::new());
            let answer = self.send(Method::GET, to, headers, None, None).await?;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::base::clock::SystemClock;
    use crate::base::secret::Secret;
    use crate::config::settings;

    fn client() -> HttpGemini {
        let secret = || Secret::new("a-secret-of-the-operator");
        let settings = settings::Gemini {
            base_url: "https://gateway.example/proxy/".parse().unwrap(),
            download_base_url: Some("https://files.example:8443".parse().unwrap()),
            api_version: "v1beta".to_owned(),
            api_key: Some(secret()),
            timeout: Duration::from_secs(1),
            requests_per_second: 0,
            extra_headers: BTreeMap::from([("cf-aig-authorization".to_owned(), secret())]),
            max_body: 1,
        };
        HttpGemini::new(&settings, Arc::new(SystemClock::new())).unwrap()
    }

    #[test]
    fn redirects_lead_to_own_origins_and_googles_file_hosts_only() {
        let client = client();
        let from = client.download_base.join("files/a:download").unwrap();
        for (to, reached) in [
            ("/b?c", "https://files.example:8443/b?c"),
            (
                "https://files.example:8443/x",
                "https://files.example:8443/x",
            ),
            ("https://files.example/x", "https://files.example/x"),
            ("https://gateway.example/x", "https://gateway.example/x"),
            (
                "https://storage.googleapis.com/x",
                "https://storage.googleapis.com/x",
            ),
            (
                "https://A.B.GoogleUserContent.com/",
                "https://a.b.googleusercontent.com/",
            ),
        ] {
            let followed = client.follow(&from, to).map(String::from);
            assert_eq!(followed.as_deref(), Ok(reached));
        }
        for to in [
            "http://files.example:8443/x",
            "http://gateway.example/x",
            "http://storage.googleapis.com/x",
            "https://googleapis.com/x",
            "https://evilgoogleapis.com/x",
            "https://storage.googleapis.com.evil.example/x",
            "https://storage.googleapis.com@evil.example/x",
            "https://user@storage.googleapis.com/x",
            "//evil.example/x",
            "data:text/plain,x",
            "https://[::1",
        ] {
            assert!(client.follow(&from, to).is_err(), "{to}");
        }
    }

    #[test]
    fn credentials_stay_with_their_origins() {
        let client = client();
        for (url, key, extra) in [
            ("https://gateway.example/x", true, true),
            ("https://files.example:8443/x", true, false),
            ("https://files.example/x", false, false),
            ("http://gateway.example/x", false, false),
            ("https://gateway.example:444/x", false, false),
            ("https://storage.googleapis.com/x", false, false),
        ] {
            let headers = client.headers_for(&url.parse().unwrap(), HeaderMap::new());
            let headers = headers.unwrap();
            assert_eq!(headers.contains_key("x-goog-api-key"), key, "{url}");
            assert_eq!(headers.contains_key("cf-aig-authorization"), extra, "{url}");
            assert!(
                headers.values().all(http::HeaderValue::is_sensitive),
                "{url}"
            );
        }
    }
}
