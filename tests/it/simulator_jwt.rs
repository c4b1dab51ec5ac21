//! Dynamic signing: tokens that another implementation verifies with the published keys.

use hookledger::simulator::{
    Fault, FaultKind, KeyRotation, Kind, Mode, NewJob, Outcome, RawWebhook, SimulatorConfig,
    TokenConfig, WebhookPlan,
};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::simulator_support::Sim;

const JWKS: &str = "/.well-known/jwks.json";
/// When the simulator's clock starts.
const START: i64 = 1_769_083_200;

struct Stage {
    sim: Sim,
    server: MockServer,
}

impl Stage {
    async fn new() -> Self {
        let server = MockServer::start().await;
        let answer = Mock::given(any()).respond_with(ResponseTemplate::new(200));
        answer.mount(&server).await;
        let sim = Sim::plain().await;
        Self { sim, server }
    }

    /// The signature of an ending told to a job's own destination.
    async fn told(&self, deliver: Mode) -> String {
        let job = NewJob {
            webhook_uris: vec![self.server.uri()],
            webhook: WebhookPlan::of(deliver),
            ..NewJob::new(Kind::Batch)
        };
        let name = self.sim.fake.start(job).unwrap();
        self.sim.fake.finish(&name, Outcome::Succeeded).unwrap();
        assert_eq!(self.sim.step().await, 1);
        let told = self.server.received_requests().await.unwrap();
        let last = told.last().unwrap();
        let signature = last.headers.get("webhook-signature").unwrap();
        signature.to_str().unwrap().to_owned()
    }

    /// The claims, if a published key signed the token. Times are not judged: the clock is manual.
    async fn verified(&self, token: &str) -> Option<Value> {
        let kid = decode_header(token).unwrap().kid.unwrap();
        // No API key: the keys are public.
        let address = format!("{}{JWKS}", self.sim.base);
        let set: Value = self
            .sim
            .http
            .get(address)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let keys = set.get("keys").unwrap().as_array().unwrap();
        let key = keys
            .iter()
            .find(|key| key.get("kid") == Some(&json!(kid)))?;
        let part = |name: &str| key.get(name).unwrap().as_str().unwrap();
        let key = DecodingKey::from_rsa_components(part("n"), part("e")).unwrap();
        let mut validation = Validation::new(Algorithm::RS256);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let read = decode::<Value>(token, &key, &validation).unwrap();
        Some(read.claims)
    }
}

#[tokio::test]
async fn an_event_for_a_jobs_own_destination_carries_a_token_of_a_published_key() {
    let stage = Stage::new().await;
    let token = stage.told(Mode::Once).await;
    let claims = stage.verified(&token).await.unwrap();
    assert_eq!(
        claims,
        json!({
            "aud": "simulated-audience",
            "iss": "https://accounts.google.com",
            "iat": START,
            "exp": START + 600,
        })
    );
    // Signed with the same key each time, and expired when it is told stale.
    let old = stage.told(Mode::Stale).await;
    let claims = stage.verified(&old).await.unwrap();
    assert_eq!(claims["exp"], START - 3600 + 600);
    let set = stage.sim.request("GET", JWKS).send().await.unwrap();
    let caching = set.headers().get("cache-control").unwrap();
    assert_eq!(caching, "public, max-age=3600, must-revalidate");
    let set: Value = set.json().await.unwrap();
    assert_eq!(set["keys"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn keys_are_rotated_hidden_published_and_withdrawn() {
    let stage = Stage::new().await;
    let first = stage.told(Mode::Once).await;
    stage.sim.post("/_sim/jwks/rotate", "").await;
    let second = stage.told(Mode::Once).await;
    assert!(stage.verified(&first).await.is_some());
    assert!(stage.verified(&second).await.is_some());

    let made = stage
        .sim
        .post("/_sim/jwks/rotate", r#"{"hidden":true}"#)
        .await;
    let third = stage.told(Mode::Once).await;
    let kid = decode_header(&third).unwrap().kid.unwrap();
    assert_eq!(made["kid"], kid);
    assert!(stage.verified(&third).await.is_none());
    stage.sim.post("/_sim/jwks/publish", "").await;
    assert!(stage.verified(&third).await.is_some());

    let withdrawn = KeyRotation {
        withdraw: true,
        ..KeyRotation::default()
    };
    stage.sim.fake.rotate_key(withdrawn).unwrap();
    assert!(stage.verified(&third).await.is_none());
    let fourth = stage.told(Mode::Once).await;
    assert!(stage.verified(&fourth).await.is_some());
}

#[tokio::test]
async fn the_claims_can_be_anything() {
    let stage = Stage::new().await;
    let claims = r#"{"claims":{"aud":null,"iss":"other","type":"batch.failed"}}"#;
    stage.sim.post("/_sim/jwt-claims", claims).await;
    let token = stage.told(Mode::Once).await;
    let claims = stage.verified(&token).await.unwrap();
    assert_eq!(claims["aud"], Value::Null);
    assert_eq!(claims["iss"], "other");
    assert_eq!(claims["type"], "batch.failed");

    let quiet = Sim::with(SimulatorConfig {
        tokens: TokenConfig {
            audience: None,
            ..TokenConfig::default()
        },
        ..SimulatorConfig::default()
    })
    .await;
    let raw = RawWebhook {
        body: Some(json!({"type": "batch.succeeded"})),
        url: Some(stage.server.uri()),
        dynamic: true,
        ..RawWebhook::default()
    };
    quiet.fake.send_webhook(raw).unwrap();
    quiet.step().await;
    let told = stage.server.received_requests().await.unwrap();
    let given = told
        .last()
        .unwrap()
        .headers
        .get("webhook-signature")
        .unwrap();
    let stage = Stage {
        sim: quiet,
        server: stage.server,
    };
    let claims = stage.verified(given.to_str().unwrap()).await.unwrap();
    assert_eq!(claims["aud"], Value::Null);
    assert_eq!(claims["iss"], "https://accounts.google.com");
}

#[tokio::test]
async fn the_key_set_can_be_down_and_is_counted() {
    let stage = Stage::new().await;
    let down = Fault::once(FaultKind::Unavailable).on("jwks").times(2);
    stage.sim.fake.fault(down);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(stage.sim.ask("GET", JWKS, "").await.0);
    }
    assert_eq!(statuses, [503, 503, 200]);
    let asked = stage.sim.fake.requests();
    assert_eq!(asked.iter().filter(|seen| seen.path == JWKS).count(), 3);
}
