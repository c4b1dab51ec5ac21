//! A door on loopback with a receiver that can be held, and a client for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hookledger::base::clock::{ManualClock, SystemClock, Timestamp};
use hookledger::base::secret::Secret;
use hookledger::base::shutdown::Shutdown;
use hookledger::config::settings::{self, Require};
use hookledger::http::hooks::{Door, Receive, ReceiveAnswer, Unavailable, routes};
use hookledger::http::serve::ServeSettings;
use hookledger::verify::{KeySource, NoKeys, SigningSecret, Verified, Verifier};
use tokio::sync::{Notify, Semaphore};

use super::http_support::{SHORT, Server, settings};

pub(crate) const TOKEN: &str = "correct-horse-battery-staple";
pub(crate) const SHARED: &str = "a-shared-secret-of-24-bytes";
pub(crate) const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_769_083_200_123);
pub(crate) const MAX_BODY: usize = 4096;
pub(crate) const BODY: &[u8] = b"{\"type\":\"batch.succeeded\"}";

/// Answers by the body's text, and can be held at a gate.
pub(crate) struct Receiver {
    pub(crate) taken: Mutex<Vec<Verified>>,
    pub(crate) refusals: Mutex<Vec<(Option<String>, &'static str)>>,
    pub(crate) entered: Notify,
    pub(crate) gate: Semaphore,
    pub(crate) finished: Notify,
}

impl Receiver {
    pub(crate) fn with_gate(open: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::default(),
            refusals: Mutex::default(),
            entered: Notify::new(),
            gate: Semaphore::new(open),
            finished: Notify::new(),
        })
    }

    pub(crate) fn refusals(&self) -> Vec<(Option<String>, &'static str)> {
        std::mem::take(&mut self.refusals.lock().unwrap())
    }
}

#[async_trait]
impl Receive for Receiver {
    async fn receive(&self, delivery: Verified) -> Result<ReceiveAnswer, Unavailable> {
        self.entered.notify_one();
        self.gate.acquire().await.unwrap().forget();
        let body = delivery.body().clone();
        self.taken.lock().unwrap().push(delivery);
        self.finished.notify_one();
        match body.as_ref() {
            b"again" => Ok(ReceiveAnswer::Duplicate),
            b"ping" => Ok(ReceiveAnswer::Ignored),
            b"full" => Err(Unavailable {
                retry_after: Duration::from_secs(7),
            }),
            b"defect" => {
                let planned = true;
                assert!(!planned, "as planned");
                Ok(ReceiveAnswer::Accepted)
            }
            _ => Ok(ReceiveAnswer::Accepted),
        }
    }

    fn refused(&self, source: Option<&str>, reason: &'static str) {
        let source = source.map(ToOwned::to_owned);
        self.refusals.lock().unwrap().push((source, reason));
    }
}

pub(crate) fn verifier() -> Verifier {
    verifier_of(|_| {})
}

/// The same, with the source changed.
pub(crate) fn verifier_of(change: impl FnOnce(&mut settings::Source)) -> Verifier {
    let hooks = settings::Hooks {
        path_token: Some(Secret::new(TOKEN)),
        shared_secret: Some(Secret::new(SHARED)),
        tolerance: Duration::from_secs(300),
        dedupe_ttl: Duration::from_hours(168),
        max_waiting: 1 << 20,
    };
    let mut source = settings::Source {
        require: Require::Any,
        shared_header: true,
        signing_secrets: vec![Secret::new(SIGNING)],
        kept_secrets: false,
        jwt: false,
        jwks_urls: Vec::new(),
        audiences: Vec::new(),
        issuers: Vec::new(),
        allow_from: Vec::new(),
    };
    change(&mut source);
    let sources = BTreeMap::from([("gemini".to_owned(), source)]);
    let keys: Arc<dyn KeySource> = Arc::new(NoKeys);
    Verifier::new(&hooks, &sources, &keys).unwrap()
}

pub(crate) struct Place<R = Receiver> {
    pub(crate) server: Server,
    pub(crate) receiver: Arc<R>,
    pub(crate) client: reqwest::Client,
}

impl Place {
    pub(crate) async fn open() -> Self {
        Self::new(Receiver::with_gate(1000), settings(), 8).await
    }
}

impl<R: Receive> Place<R> {
    pub(crate) async fn new(
        receiver: Arc<R>,
        serving: ServeSettings,
        max_in_flight: usize,
    ) -> Self {
        let clock = Arc::new(ManualClock::starting_at(NOW));
        Self::behind(verifier(), clock, receiver, serving, max_in_flight).await
    }

    pub(crate) async fn behind(
        verifier: Verifier,
        clock: Arc<ManualClock>,
        receiver: Arc<R>,
        serving: ServeSettings,
        max_in_flight: usize,
    ) -> Self {
        let limits = settings::Server {
            listen: "127.0.0.1:0".parse().unwrap(),
            header_timeout: serving.header_timeout,
            body_timeout: SHORT,
            max_body: MAX_BODY as u64,
            max_connections: serving.max_connections,
            max_connections_per_address: serving.max_connections_per_address,
            max_in_flight,
            trusted_proxies: Vec::new(),
            stop_timeout: Duration::from_secs(5),
            public_url: None,
        };
        let tasks = Shutdown::new(Arc::new(SystemClock::new()));
        let door = Door::new(verifier, receiver.clone(), &limits, clock, tasks);
        Self {
            server: Server::start(routes(Arc::new(door)), serving).await,
            receiver,
            client: reqwest::Client::builder()
                .no_proxy()
                .timeout(Duration::from_secs(20))
                .build()
                .unwrap(),
        }
    }

    pub(crate) fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.client
            .post(format!("http://{}{path}", self.server.address))
    }

    pub(crate) fn hook(&self) -> reqwest::RequestBuilder {
        self.post(&format!("/hooks/gemini/{TOKEN}"))
    }

    pub(crate) fn shared(&self, body: &'static str) -> reqwest::RequestBuilder {
        self.hook().header("x-hook-secret", SHARED).body(body)
    }
}

/// Status, and what an onlooker can compare: headers without the per-request ones, and the body.
pub(crate) async fn seen(request: reqwest::RequestBuilder) -> (u16, Vec<String>, String) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let mut headers: Vec<String> = response
        .headers()
        .iter()
        .filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    headers.sort();
    (status, headers, response.text().await.unwrap())
}

pub(crate) fn signed(
    request: reqwest::RequestBuilder,
    shift: i64,
    body: &[u8],
) -> reqwest::RequestBuilder {
    let key = SigningSecret::parse(&Secret::new(SIGNING)).unwrap();
    let at = Timestamp::from_millis(NOW.as_millis() + shift * 1000);
    request
        .header("webhook-id", "msg_1")
        .header("webhook-timestamp", at.as_seconds())
        .header("webhook-signature", key.sign("msg_1", at, body))
}
