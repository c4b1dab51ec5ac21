//! The running service, over HTTP.
//!
//! Two callers: `health` asks the public listener and needs no secret; everything else talks to the
//! admin API with its bearer token. No proxy, no redirect: both listeners are this machine's or were
//! named by its operator, and a token must not travel further.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use url::Url;

use super::failure::Failure;
use crate::base::secret::Secret;
use crate::http::echo::{CHALLENGE, ECHO};

/// Longest wait for a connection: what is not there on loopback says so at once.
const CONNECT: Duration = Duration::from_secs(1);
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Longest wait for an answer about health.
const HEALTH: Duration = Duration::from_secs(5);

/// What was found at the admin address.
#[derive(Debug)]
pub(super) enum Found {
    /// The admin API, and it lets us in.
    Service(Client),
    /// The admin API, but it refuses the token.
    Refused,
    /// Nothing that answers as the admin API does.
    Nothing,
}

/// The admin API.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    token: Secret,
}

impl Client {
    /// Looks whether the admin API answers at `listen`.
    pub(super) async fn find(listen: SocketAddr, token: &Secret) -> Result<Found, Failure> {
        let client = Self {
            http: http(ANSWER)?,
            base: base_of(listen)?,
            token: token.clone(),
        };
        // One cheap page tells a service of ours from whatever else may listen there.
        let request = client.request(Method::GET, "/api/v1/operations", &[("limit", "1")]);
        let Ok(answer) = request.timeout(HEALTH).send().await else {
            return Ok(Found::Nothing);
        };
        Ok(match answer.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Found::Refused,
            StatusCode::NOT_FOUND => Found::Nothing,
            // Whatever else it says is for the command itself to meet and to report.
            _ => Found::Service(client),
        })
    }

    /// `GET path?query`.
    pub(super) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Failure> {
        read(self.request(Method::GET, path, query)).await
    }

    /// `POST path` with a JSON body.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        read(self.request(Method::POST, path, &[]).json(body)).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
    ) -> reqwest::RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http
            .request(method, url)
            .bearer_auth(self.token.expose())
    }
}

async fn read(request: reqwest::RequestBuilder) -> Result<Value, Failure> {
    let answer = request.send().await.map_err(|error| {
        Failure::Unreachable(format!(
            "the service stopped answering ({}); whether it did this is not known",
            what(&error)
        ))
    })?;
    let status = answer.status();
    let document: Option<Value> = answer.json().await.ok();
    if status.is_success() {
        return document.ok_or_else(|| {
            Failure::Unreachable("what answers at admin.listen is no hookledger".to_owned())
        });
    }
    Err(refusal(status, document.as_ref()))
}

/// A problem document as a failure.
fn refusal(status: StatusCode, problem: Option<&Value>) -> Failure {
    let word = |name: &str| problem.and_then(|p| p.get(name)).and_then(Value::as_str);
    let text = word("detail").or_else(|| word("title")).map_or_else(
        || format!("the service answered {status}"),
        ToOwned::to_owned,
    );
    match status {
        StatusCode::NOT_FOUND => Failure::NotFound(text),
        StatusCode::CONFLICT => Failure::Conflict(text),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::Unreachable(text),
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Failure::Usage(text),
        _ => Failure::Failed(text),
    }
}

/// Asks about health. `Err` holds chosen words when nothing answered.
pub(super) async fn health(url: Url) -> Result<(bool, Value), String> {
    let http = http(HEALTH).map_err(|failure| failure.to_string())?;
    let answer = http
        .get(url)
        .send()
        .await
        .map_err(|error| what(&error).to_owned())?;
    let status = answer.status();
    let document = answer
        .json()
        .await
        .unwrap_or_else(|_| json!({"status": status.as_u16()}));
    Ok((status.is_success(), document))
}

/// What answered a challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Echo {
    pub(super) status: u16,
    /// The answer to the challenge, if there was one.
    pub(super) echo: Option<String>,
}

/// Sends a challenge and nothing else. `Err` holds chosen words when nothing answered.
pub(super) async fn challenge(url: Url, challenge: &str, wait: Duration) -> Result<Echo, String> {
    let mut http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(wait);
    let host = url.host_str().unwrap_or_default();
    if host.starts_with("127.") || host == "localhost" || host == "[::1]" {
        // A proxy of the environment is for the world outside.
        http = http.no_proxy();
    }
    let http = http
        .build()
        .map_err(|_| "an HTTP client cannot be made".to_owned())?;
    let asked = http.get(url).header(CHALLENGE, challenge).send().await;
    let answer = asked.map_err(|error| cause(error, wait))?;
    let echo = answer.headers().get(ECHO).and_then(|v| v.to_str().ok());
    Ok(Echo {
        status: answer.status().as_u16(),
        echo: echo.map(ToOwned::to_owned),
    })
}

/// The deepest cause of an error, without the address.
fn cause(error: reqwest::Error, wait: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {}", humantime::format_duration(wait));
    }
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The base URL that reaches `listen` from this machine.
pub(super) fn base_of(listen: SocketAddr) -> Result<Url, Failure> {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let address = SocketAddr::new(ip, listen.port());
    Url::parse(&format!("http://{address}"))
        .map_err(|_| Failure::usage(format!("{address} is no address to connect to")))
}

fn http(timeout: Duration) -> Result<reqwest::Client, Failure> {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .timeout(timeout)
        .build()
        .map_err(|_| Failure::failed("cannot make an HTTP client"))
}

/// An error in words that hold no URL.
fn what(error: &reqwest::Error) -> &'static str {
    if error.is_connect() {
        "nothing listens there"
    } else if error.is_timeout() {
        "it did not answer in time"
    } else {
        "the connection failed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_address_is_asked_on_loopback() {
        let base = |text: &str| base_of(text.parse().unwrap()).unwrap().to_string();
        assert_eq!(base("0.0.0.0:80"), "http://127.0.0.1/");
        assert_eq!(base("[::]:8081"), "http://[::1]:8081/");
        assert_eq!(base("10.0.0.7:8081"), "http://10.0.0.7:8081/");
    }

    #[test]
    fn refusals_keep_the_service_s_words_and_map_to_codes() {
        let problem = json!({"title": "Conflict", "detail": "it is taken"});
        let conflict = refusal(StatusCode::CONFLICT, Some(&problem));
        assert_eq!(
            (conflict.code(), conflict.to_string()),
            (4, "it is taken".to_owned())
        );
        assert_eq!(refusal(StatusCode::NOT_FOUND, None).code(), 3);
        assert_eq!(refusal(StatusCode::UNAUTHORIZED, None).code(), 5);
        assert_eq!(refusal(StatusCode::BAD_REQUEST, None).code(), 2);
        assert_eq!(refusal(StatusCode::INTERNAL_SERVER_ERROR, None).code(), 1);
    }
}
