//! A key server that can be told to misbehave, and tokens by the keys it serves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::routing::get;
use hookledger::base::clock::{Clock, ManualClock, SystemClock};
use hookledger::base::secret::Secret;
use hookledger::base::shutdown::Shutdown;
use hookledger::config::settings::{self, Require};
use hookledger::http::hooks::Receive;
use hookledger::verify::{HttpKeys, KeySource, Verifier};
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use crate::http_door::{BODY, NOW, Place, SHARED, SIGNING, TOKEN};
use crate::http_support::{PATIENCE, settings as serving};

const PEM_A: &[u8] = include_bytes!("../fixtures/test-only-rsa-a.pem");
const PEM_B: &[u8] = include_bytes!("../fixtures/test-only-rsa-b.pem");

/// The two keys there are; each is served under its own name.
pub(crate) fn pem(kid: &str) -> &'static [u8] {
    if kid == "b" { PEM_B } else { PEM_A }
}

pub(crate) fn entry(kid: &str) -> Value {
    let key = EncodingKey::from_rsa_pem(pem(kid)).unwrap();
    let jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
    let AlgorithmParameters::RSA(rsa) = jwk.algorithm else {
        panic!("not RSA");
    };
    json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": rsa.n, "e": rsa.e})
}

/// How the key server answers.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Set(Value),
    Text(u16, String),
    Redirect,
    Nothing,
}

pub(crate) fn keys(kids: &[&str]) -> Answer {
    let keys: Vec<Value> = kids.iter().map(|kid| entry(kid)).collect();
    Answer::Set(json!({"keys": keys}))
}

#[derive(Clone)]
pub(crate) struct KeyServer {
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
    url: String,
}

impl KeyServer {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            answer: Arc::new(Mutex::new(answer)),
            asked: Arc::default(),
            url: format!("http://{}/jwks", listener.local_addr().unwrap()),
        };
        let routes = Router::new()
            .route("/jwks", get(answers))
            .route("/elsewhere", get(|| async { entry("a").to_string() }))
            .with_state(server.clone());
        let tasks = Shutdown::new(Arc::new(SystemClock::new()));
        tasks.spawn("key server", async move {
            axum::serve(listener, routes).await.unwrap();
        });
        server
    }

    pub(crate) fn now_answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answers(State(server): State<KeyServer>) -> Response<Body> {
    server.asked.fetch_add(1, Ordering::SeqCst);
    let answer = server.answer.lock().unwrap().clone();
    let respond = |status: u16, body: String| {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let headers = response.headers_mut();
        headers.insert("cache-control", "public, max-age=600".parse().unwrap());
        headers.insert("location", "/elsewhere".parse().unwrap());
        response
    };
    match answer {
        Answer::Set(set) => respond(200, set.to_string()),
        Answer::Text(status, text) => respond(status, text),
        Answer::Redirect => respond(302, String::new()),
        Answer::Nothing => std::future::pending().await,
    }
}

/// What a test wants of its door.
pub(crate) struct Wanted {
    pub(crate) require: Require,
    pub(crate) shared_header: bool,
    pub(crate) audiences: Vec<String>,
    pub(crate) issuers: Vec<String>,
    pub(crate) fetch_timeout: Duration,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            require: Require::Any,
            shared_header: true,
            audiences: Vec::new(),
            issuers: Vec::new(),
            fetch_timeout: PATIENCE,
        }
    }
}

pub(crate) async fn door<R: Receive>(
    server: &KeyServer,
    wanted: Wanted,
    receiver: Arc<R>,
) -> (Place<R>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(NOW));
    let hooks = settings::Hooks {
        path_token: Some(Secret::new(TOKEN)),
        shared_secret: Some(Secret::new(SHARED)),
        tolerance: Duration::from_secs(300),
        dedupe_ttl: Duration::from_hours(168),
        max_waiting: 1 << 20,
    };
    let source = settings::Source {
        require: wanted.require,
        shared_header: wanted.shared_header,
        signing_secrets: vec![Secret::new(SIGNING)],
        kept_secrets: false,
        jwt: true,
        jwks_urls: vec![server.url.parse().unwrap()],
        audiences: wanted.audiences,
        issuers: wanted.issuers,
        allow_from: Vec::new(),
    };
    let tasks = Shutdown::new(Arc::new(SystemClock::new()));
    let keys: Arc<dyn KeySource> =
        Arc::new(HttpKeys::within(wanted.fetch_timeout, clock.clone(), tasks).unwrap());
    let sources = BTreeMap::from([("gemini".to_owned(), source)]);
    let verifier = Verifier::new(&hooks, &sources, &keys).unwrap();
    let place = Place::behind(verifier, clock.clone(), receiver, serving(), 16).await;
    (place, clock)
}

/// A token by the key named `kid`, as its header says it, with `claims` beside `exp`.
pub(crate) fn token(clock: &ManualClock, kid: &str, claims: &Value) -> String {
    let mut all = claims.clone();
    all.as_object_mut()
        .unwrap()
        .entry("exp")
        .or_insert_with(|| json!(clock.now().as_seconds() + 300));
    let header = json!({"alg": "RS256", "kid": kid});
    signed_by(kid, &header, &all)
}

pub(crate) fn signed_by(kid: &str, header: &Value, claims: &Value) -> String {
    let part = |json: &Value| data_encoding::BASE64URL_NOPAD.encode(json.to_string().as_bytes());
    let text = format!("{}.{}", part(header), part(claims));
    let key = EncodingKey::from_rsa_pem(pem(kid)).unwrap();
    let signature = jsonwebtoken::crypto::sign(text.as_bytes(), &key, Algorithm::RS256).unwrap();
    format!("{text}.{signature}")
}

/// Sends a delivery with this token.
pub(crate) fn with<R: Receive>(place: &Place<R>, token: &str) -> reqwest::RequestBuilder {
    place
        .hook()
        .header("Webhook-Signature", token)
        .header("webhook-id", "msg_1")
        .body(BODY.to_vec())
}
