//! The ways in which the provider proves a delivery, side by side in one running service.

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::simulator::{Kind, Mode, NewJob, Outcome, WebhookPlan};
use standardwebhooks::Webhook;

use crate::support::outside;
use crate::support::stand::{PATH_TOKEN, SIGNING, Stand, silent, succeeded};

/// A secret that took the place of the first one; both are accepted for a while.
const NEXT: &str = "whsec_bmV4dC1zaWduaW5nLXNlY3JldC1vZi0zMi1ieXRlcy0=";

/// Signed as the provider does in the overlap of a rotation: by the old secret and by the new.
async fn deliver_signed_by(stand: &Stand, id: &str, body: String, secrets: &[&str]) -> u16 {
    let now = SystemClock::new().now().as_seconds();
    let signatures: Vec<String> = secrets
        .iter()
        .map(|secret| {
            Webhook::new(secret)
                .unwrap()
                .sign(id, now, body.as_bytes())
                .unwrap()
        })
        .collect();
    let request = stand
        .request(http::Method::POST, &format!("/hooks/gemini/{PATH_TOKEN}"))
        .header("webhook-id", id)
        .header("webhook-timestamp", now)
        .header("webhook-signature", signatures.join(" "))
        .body(body);
    request.send().await.unwrap().status().as_u16()
}

/// A job with a destination of its own, ended: its ending is told with a token.
fn dynamic(stand: &Stand) -> String {
    let url = format!("http://{}/hooks/gemini/{PATH_TOKEN}", stand.public);
    let job = NewJob {
        webhook_uris: vec![url],
        webhook: WebhookPlan::of(Mode::Once),
        manual: true,
        ..NewJob::new(Kind::Batch)
    };
    let name = stand.gemini.start(job).unwrap();
    stand.gemini.finish(&name, Outcome::Succeeded).unwrap();
    name
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_rotated_and_dynamic_deliveries_are_accepted_by_one_service() {
    let mut stand = Stand::with(&[
        ("reconcile.grace", "'10m'"),
        ("sources.gemini.shared_header", "false"),
    ])
    .await;
    // The addresses of the keys are known only now.
    stand.kill().await;
    let path = stand.dir.path().join("config.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    let keys = format!(
        "sources.gemini.jwks_urls = ['{}/.well-known/jwks.json']\n",
        stand.base
    );
    std::fs::write(&path, keys + &config).unwrap();
    let both = format!("{SIGNING},{NEXT}");
    stand
        .start_with(&[("GEMINI_WEBHOOK_SECRETS", both.as_str())])
        .await;

    for (id, secrets) in [
        ("static", &[SIGNING][..]),
        ("overlap", &[SIGNING, NEXT]),
        ("rotated", &[NEXT]),
    ] {
        let name = stand.gemini.start(silent(false)).unwrap();
        let status = deliver_signed_by(&stand, id, succeeded(&name), secrets).await;
        assert_eq!(status, 200, "{id}");
        assert_eq!(stand.settled(&name).await["settled_by"], "webhook", "{id}");
    }

    let name = dynamic(&stand);
    assert_eq!(stand.settled(&name).await["settled_by"], "webhook");
    let proofs = "SELECT proof FROM captured_events ORDER BY received_at_ms";
    let proofs = outside::texts(&stand.db(), proofs).await;
    assert_eq!(proofs.len(), 4);
    assert_ne!(proofs[2], proofs[3], "{proofs:?}: a signature and a token");
}
