//! [`GeminiApi`] over HTTP.
//!
//! Problem: one request carries the key of a project, and its answer decides what becomes of a job
//! somebody paid for.
//!
//! Design: `HttpGemini::send` is the only place where a request leaves. The key goes in a header
//! marked sensitive, never in a URL. The HTTP client follows no redirect and has a connect timeout
//! and an idle timeout; API calls have a total one as well. Bodies are read up to a cap. `base_url`
//! may hold a path (an AI gateway), so URLs are put together from texts that cannot leave their
//! segment. A gateway's cache would repeat "running" for ever, so it is told to stand aside.
//!
//! Who gets what: the key goes to the origins of `base_url` and `download_base_url`,
//! `extra_headers` (a gateway's own credentials) only to the origin of `base_url`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{Client, Response};
use url::{Host, Url};

use super::limit::Limit;
use super::text::{Redact, clean};
use super::webhooks::ServiceVersion;
use super::{Download, FetchedBody, FileName, GeminiApi, error, wire};
use crate::base::clock::Clock;
use crate::base::swap::Swap;
use crate::config::settings;
use crate::domain::fault::Fault;
use crate::domain::operation::OperationName;

const USER_AGENT: &str = concat!("hookledger/", env!("CARGO_PKG_VERSION"));
const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
pub(super) const SKIP_CACHE: HeaderName = HeaderName::from_static("cf-aig-skip-cache");
/// Longest wait for a connection; shorter when `gemini.timeout` is.
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes read of an answer that is an error.
const MAX_ERROR_BODY: u64 = 64 * 1024;

/// Why no client could be made of the settings. The texts never repeat a value.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A base URL that requests cannot be appended to.
    #[error("{key} must be an http or https URL without user, query or fragment")]
    BaseUrl {
        /// The setting's name.
        key: &'static str,
    },
    /// `gemini.api_version` is not one path segment.
    #[error("gemini.api_version must be a word such as v1beta")]
    ApiVersion,
    /// `gemini.api_key` cannot be sent in a header.
    #[error("gemini.api_key holds characters that cannot be sent in a header")]
    ApiKey,
    /// An extra header that is none.
    #[error("gemini.extra_headers: {name} is not a header name and value")]
    ExtraHeader {
        /// The header's name.
        name: String,
    },
    /// The TLS or DNS machinery did not start.
    #[error("the HTTP client could not be made")]
    Client(#[source] reqwest::Error),
}

/// The Gemini API over HTTP.
pub struct HttpGemini {
    pub(super) base: Base,
    pub(super) download_base: Base,
    /// The same place under the other documented version, for the one service both may have.
    pub(super) other_base: Option<Base>,
    pub(super) webhooks_at: ServiceVersion,
    pub(super) clock: Arc<dyn Clock>,
    limit: Limit,
    client: Client,
    credentials: Swap<Credentials>,
    pub(super) timeout: Duration,
    max_body: u64,
}

/// What a reload of the secrets replaces: taken once for each request.
struct Credentials {
    key: Option<HeaderValue>,
    extra: HeaderMap,
    redact: Redact,
}

impl Credentials {
    fn new(settings: &settings::Gemini) -> Result<Self, BuildError> {
        let key = settings.api_key.as_ref().map(|key| sensitive(key.expose()));
        let mut extra = HeaderMap::new();
        for (name, value) in &settings.extra_headers {
            let header = HeaderName::try_from(name.as_str()).ok();
            let (Some(header), Some(value)) = (header, sensitive(value.expose())) else {
                return Err(BuildError::ExtraHeader { name: name.clone() });
            };
            extra.insert(header, value);
        }
        let secrets = settings
            .api_key
            .iter()
            .chain(settings.extra_headers.values());
        Ok(Self {
            key: key.map(|k| k.ok_or(BuildError::ApiKey)).transpose()?,
            extra,
            redact: Redact::new(secrets.cloned()),
        })
    }
}

impl fmt::Debug for HttpGemini {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpGemini")
            .field("base", &self.base.url.as_str())
            .finish_non_exhaustive()
    }
}

/// A configured base URL, version included, to which a resource path is appended.
#[derive(Debug, Clone)]
pub(super) struct Base {
    pub(super) url: Url,
}

impl Base {
    fn new(url: &Url, version: &str, key: &'static str) -> Result<Self, BuildError> {
        let plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let joined = format!("{}/{version}", url.as_str().trim_end_matches('/'));
        Url::parse(&joined)
            .ok()
            .filter(|_| plain)
            .map(|url| Self { url })
            .ok_or(BuildError::BaseUrl { key })
    }

    /// `{base}/{version}/{path}`. `path` is made of names that only their parsers can make.
    pub(super) fn join(&self, path: &str) -> Result<Url, Fault> {
        Url::parse(&format!("{}/{path}", self.url)).map_err(|_| Fault::Rejected {
            what: "the name makes no URL".to_owned(),
        })
    }

    fn is_loopback(&self) -> bool {
        match self.url.host() {
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }

    pub(super) fn is_origin_of(&self, url: &Url) -> bool {
        self.url.origin() == url.origin()
    }
}

impl HttpGemini {
    /// A client for the API at `settings.base_url`. Opens no connection. Without a key it can be
    /// made, and every call answers [`Fault::KeyRefused`].
    ///
    /// # Errors
    /// [`BuildError`], for settings no request can be made of.
    pub fn new(settings: &settings::Gemini, clock: Arc<dyn Clock>) -> Result<Self, BuildError> {
        let version = settings.api_version.as_str();
        let is_word = !version.is_empty()
            && version
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !is_word {
            return Err(BuildError::ApiVersion);
        }
        let base = Base::new(&settings.base_url, version, "gemini.base_url")?;
        let download_base = match &settings.download_base_url {
            Some(url) => Base::new(url, version, "gemini.download_base_url")?,
            None => base.clone(),
        };
        let other_base = ServiceVersion::other_than(version)
            .map(|other| Base::new(&settings.base_url, other, "gemini.base_url"))
            .transpose()?;
        let credentials = Swap::new(Credentials::new(settings)?);
        let mut client = Client::builder();
        if base.is_loopback() {
            // A proxy of the environment is for the world outside.
            client = client.no_proxy();
        }
        let client = client
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(settings.timeout.min(MAX_CONNECT_TIMEOUT))
            .read_timeout(settings.timeout)
            .build()
            .map_err(BuildError::Client)?;
        Ok(Self {
            base,
            download_base,
            other_base,
            webhooks_at: ServiceVersion::unknown(),
            limit: Limit::new(settings.requests_per_second, Arc::clone(&clock)),
            clock,
            client,
            credentials,
            timeout: settings.timeout,
            max_body: settings.max_body,
        })
    }

    /// Sends the key and the extra headers of `settings` from now on; nothing else of them counts.
    ///
    /// # Errors
    /// [`BuildError`]; then everything stays as it was.
    pub fn renew(&self, settings: &settings::Gemini) -> Result<(), BuildError> {
        self.credentials.set(Credentials::new(settings)?);
        Ok(())
    }

    /// Sends one request and returns the answer's head, whatever its status. `total` bounds the
    /// whole exchange, the body included; without it only silence is bounded.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Option<Bytes>,
        total: Option<Duration>,
    ) -> Result<Response, Fault> {
        let headers = self.headers_for(&url, headers)?;
        self.limit.wait().await;
        let mut request = self.client.request(method, url).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        if let Some(total) = total {
            request = request.timeout(total);
        }
        request.send().await.map_err(|e| self.trouble(e))
    }

    /// `headers` and the credentials that `url`'s origin may see.
    pub(super) fn headers_for(&self, url: &Url, headers: HeaderMap) -> Result<HeaderMap, Fault> {
        let credentials = self.credentials.get();
        let Some(key) = &credentials.key else {
            return Err(Fault::KeyRefused {
                what: "no API key is configured (gemini.api_key)".to_owned(),
            });
        };
        let mut all = HeaderMap::new();
        if self.base.is_origin_of(url) {
            all.clone_from(&credentials.extra);
        }
        all.extend(headers);
        if self.base.is_origin_of(url) || self.download_base.is_origin_of(url) {
            all.insert(API_KEY, key.clone());
        }
        Ok(all)
    }

    /// One API call: its body on 200-299, else the fault that the answer stands for.
    pub(super) async fn call(&self, path: &str) -> Result<Bytes, Fault> {
        let url = self.base.join(path)?;
        let (headers, total) = (Self::uncached(), Some(self.timeout));
        let answer = self.send(Method::GET, url, headers, None, total).await?;
        if answer.status().is_success() {
            no_page(&answer)?;
            self.read_body(answer).await
        } else {
            Err(self.refusal(answer).await)
        }
    }

    pub(super) async fn read_body(&self, answer: Response) -> Result<Bytes, Fault> {
        let (body, whole) = self.read_up_to(answer, self.max_body).await?;
        if whole {
            Ok(body)
        } else {
            Err(Fault::Undecodable {
                what: format!("larger than {} bytes (gemini.max_body)", self.max_body),
            })
        }
    }

    /// The first `max` bytes of a body, and whether that is all of it.
    async fn read_up_to(&self, answer: Response, max: u64) -> Result<(Bytes, bool), Fault> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut body = BytesMut::new();
        let mut chunks = answer.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|e| self.trouble(e))?;
            let room = max - body.len();
            if chunk.len() > room {
                body.extend_from_slice(chunk.get(..room).unwrap_or_default());
                return Ok((body.freeze(), false));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((body.freeze(), true))
    }

    /// What an answer that is not a success stands for. Its body is read for as long as a call may
    /// take; a body that does not arrive leaves the status to speak alone.
    pub(super) async fn refusal(&self, answer: Response) -> Fault {
        let (status, headers) = (answer.status(), answer.headers().clone());
        let reading = self.read_up_to(answer, MAX_ERROR_BODY);
        let body = match tokio::time::timeout(self.timeout, reading).await {
            Ok(Ok((body, _))) => body,
            Ok(Err(_)) | Err(_) => Bytes::new(),
        };
        error::fault(
            status,
            &headers,
            &body,
            self.clock.now(),
            &self.credentials.get().redact,
        )
    }

    fn trouble(&self, error: reqwest::Error) -> Fault {
        trouble(error, self.timeout, &self.credentials.get().redact)
    }

    /// The same for a stream that outlives this call.
    pub(super) fn troubles(&self) -> impl Fn(reqwest::Error) -> Fault + Send + 'static {
        let (timeout, redact) = (self.timeout, self.credentials.get().redact.clone());
        move |error| trouble(error, timeout, &redact)
    }
}

/// A failure below HTTP, in chosen words and without the URL.
fn trouble(error: reqwest::Error, timeout: Duration, redact: &Redact) -> Fault {
    let error = error.without_url();
    let what = if error.is_timeout() {
        format!("no answer within {}", humantime::format_duration(timeout))
    } else {
        let mut cause: &dyn std::error::Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let deed = if error.is_connect() {
            "connecting"
        } else {
            "the exchange"
        };
        redact.clean(&format!("{deed} failed: {cause}"))
    };
    Fault::Unavailable {
        retry_after: None,
        what,
    }
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A page instead of JSON is a gateway's or a portal's, not the API's: nobody's fault, and charged to
/// nobody. Any other type is let through: gateways mislabel, and the body tells.
fn no_page(answer: &Response) -> Result<(), Fault> {
    let declared = answer.headers().get(http::header::CONTENT_TYPE);
    match declared.map(|value| String::from_utf8_lossy(value.as_bytes())) {
        Some(kind) if kind.to_ascii_lowercase().contains("html") => Err(Fault::Unavailable {
            retry_after: None,
            what: format!("200 with {} instead of JSON", clean(&kind, 60)),
        }),
        _ => Ok(()),
    }
}

#[async_trait]
impl GeminiApi for HttpGemini {
    async fn operation(&self, name: &OperationName) -> Result<FetchedBody, Fault> {
        let bytes = self.call(name.as_str()).await?;
        let observation = wire::observe(name, &bytes)?;
        Ok(FetchedBody { observation, bytes })
    }

    async fn probe(&self) -> Result<(), Fault> {
        let bytes = self.call("batches?pageSize=1").await?;
        match serde_json::from_slice::<serde_json::Map<_, serde_json::Value>>(&bytes) {
            Ok(_) => Ok(()),
            Err(_) => Err(Fault::Undecodable {
                what: "the list is not a JSON object".to_owned(),
            }),
        }
    }

    async fn download(&self, file: &FileName) -> Result<Download, Fault> {
        self.begin_download(file).await
    }
}
