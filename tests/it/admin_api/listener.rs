//! The API behind its real listener, in the whole service.

use hookledger::app::App;

use super::*;
use crate::support::settings;

#[tokio::test]
async fn refusals_of_unread_bodies_reach_the_client_over_a_connection() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("webhook.db");
    let toml = format!(
        "[admin]\ntoken = \"{TOKEN}\"\nlisten = \"127.0.0.1:0\"\n\
         [server]\nlisten = \"127.0.0.1:0\"\n[store]\npath = {store:?}\n"
    );
    let metrics = Metrics::local().1;
    let app = App::start(&settings(&toml), metrics).await.unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/api/v1/operations", app.admin);
    let send = |token: &str, body: String| {
        let request = client.post(&url).bearer_auth(token).body(body);
        request.header("content-type", "application/json").send()
    };
    let huge = json!({"name": "batches/a", "job_kind": "k".repeat(2 << 20)}).to_string();
    let small = json!({"name": "batches/a", "job_kind": "k"}).to_string();
    for (token, body, wanted) in [
        ("wrong", huge.clone(), 401),
        (TOKEN, huge, 413),
        (TOKEN, small.clone(), 201),
        (TOKEN, small, 200),
    ] {
        let answer = send(token, body).await.unwrap();
        assert_eq!(answer.status(), wanted);
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert!(answer.json::<Value>().await.unwrap().is_object());
    }
    for (address, path, wanted) in [
        (app.public, "/readyz", 200),
        (app.public, "/healthz", 200),
        (app.public, "/metrics", 404),
        (app.public, "/api/v1/operations", 404),
        (app.admin, "/readyz", 200),
        (app.admin, "/metrics", 200),
        (app.admin, "/hooks/gemini/x", 404),
    ] {
        let answer = client.get(format!("http://{address}{path}")).send().await;
        assert_eq!(answer.unwrap().status(), wanted, "{address} {path}");
    }
    assert!(app.stop().await, "nothing was cut off");
}
