//! Several tokens, each with a name and a scope.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use super::*;

const LOOKS: &str = "test-reading-token-0123456789abcdefg";
const SECOND: &str = "test-second-token-0123456789abcdefgh";

fn settings() -> String {
    format!(
        "{}[[admin.tokens]]\nname = 'dashboard'\nscope = 'read'\ntoken = '{LOOKS}'\n\
         [[admin.tokens]]\nname = 'deploys'\nscope = 'full'\ntoken = '{SECOND}'\n",
        open()
    )
}

async fn ask(api: &Api, token: &str, method: Method, path: &str, body: Option<Value>) -> u16 {
    let mut request = request(method, path, body);
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let response = api.send(request).await;
    let status = response.status().as_u16();
    if status == 403 {
        let kind = response.headers()["content-type"].clone();
        assert_eq!(kind, "application/problem+json");
        let (_, body) = read(response).await;
        assert_eq!(body["code"], "forbidden");
    }
    status
}

#[tokio::test]
async fn a_reading_token_sees_everything_and_changes_nothing() {
    let api = Api::with(&settings()).await;
    api.register("batches/a").await;
    for path in [
        "/api/v1/operations",
        "/api/v1/operations/batches/a",
        "/api/v1/events",
        "/api/v1/queue",
        "/api/v1/effects",
        "/api/v1/alerts",
    ] {
        assert_eq!(
            ask(&api, LOOKS, Method::GET, path, None).await,
            200,
            "{path}"
        );
    }
    let id = Uuid::nil();
    let body = || Some(json!({"name": "batches/b", "job_kind": "k"}));
    for path in [
        "/api/v1/operations".to_owned(),
        "/api/v1/operations/batches/a/retry".to_owned(),
        "/api/v1/reservations".to_owned(),
        format!("/api/v1/reservations/{id}/bind"),
        format!("/api/v1/events/{id}/replay"),
        "/api/v1/queue/retry".to_owned(),
        format!("/api/v1/effects/{id}/retry"),
        format!("/api/v1/effects/{id}/resolve"),
        "/api/v1/subscription/rotate".to_owned(),
        "/api/v1/nothing/here".to_owned(),
    ] {
        let post = Method::POST;
        let status = ask(&api, LOOKS, post, &path, body()).await;
        assert_eq!(status, 403, "{path}");
    }
    let status = ask(&api, LOOKS, Method::DELETE, "/api/v1/operations", None).await;
    assert_eq!(status, 403, "DELETE");
    let (_, page) = api.get("/api/v1/operations").await;
    assert_eq!(page["operations"].as_array().unwrap().len(), 1);
    let post = Method::POST;
    let status = ask(&api, SECOND, post, "/api/v1/operations", body()).await;
    assert_eq!(status, 201, "the second full token");
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A callsite that another test's thread was just registering, with nobody to hear it, stays deaf to
/// the subscriber that came meanwhile.
fn heed_every_callsite() {
    tracing::callsite::rebuild_interest_cache();
}

#[tokio::test]
async fn who_changed_something_is_in_the_log_by_name() {
    let api = Api::with(&settings()).await;
    // Both lines are met once before anybody listens: whoever meets one first, on whatever thread,
    // settles whether it is heeded, and only then can that be settled anew.
    let body = Some(json!({"name": "batches/a", "job_kind": "k"}));
    let (post, path) = (Method::POST, "/api/v1/operations");
    assert_eq!(ask(&api, SECOND, post.clone(), path, body).await, 201);
    assert_eq!(ask(&api, LOOKS, post, path, None).await, 403);
    let lines = Lines::default();
    let kept = lines.clone();
    let log = tracing_subscriber::fmt()
        .json()
        .with_writer(move || kept.clone())
        .finish();
    let _log = tracing::subscriber::set_default(log);
    heed_every_callsite();
    let body = Some(json!({"name": "batches/b", "job_kind": "k"}));
    let (post, path) = (Method::POST, "/api/v1/operations");
    assert_eq!(ask(&api, SECOND, post.clone(), path, body).await, 201);
    heed_every_callsite();
    assert_eq!(ask(&api, LOOKS, post, path, None).await, 403);
    assert_eq!(ask(&api, LOOKS, Method::GET, path, None).await, 200);
    let text = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8(text.clone()).unwrap();
    let fields: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].clone())
        .filter(|fields| fields["token"].is_string())
        .collect();
    let told: Vec<_> = fields
        .iter()
        .map(|f| (&f["token"], &f["method"], &f["path"], &f["message"]))
        .collect();
    let (post, path) = (json!("POST"), json!("/operations"));
    let changed = json!("an admin request");
    let refused = json!("an admin token that may only read was refused");
    let expected = [
        (&json!("deploys"), &post, &path, &changed),
        (&json!("dashboard"), &post, &path, &refused),
    ];
    assert_eq!(told, expected);
    assert!(!text.contains(SECOND) && !text.contains(LOOKS));
}

#[tokio::test]
async fn who_hangs_up_is_in_the_log_for_what_was_done() {
    let api = Api::with(&settings()).await;
    let path = "/api/v1/reservations";
    let body = || Some(json!({"job_kind": "k"}));
    // As above: the line is met once before anybody listens.
    assert_eq!(ask(&api, SECOND, Method::POST, path, body()).await, 201);
    let lines = Lines::default();
    let kept = lines.clone();
    let log = tracing_subscriber::fmt()
        .json()
        .with_writer(move || kept.clone())
        .finish();
    let _log = tracing::subscriber::set_default(log);
    heed_every_callsite();
    // Somebody holds the file, so the requests wait for their commit when the client goes.
    let file = crate::support::options(&api.world.base.dir).path;
    let mut holder = crate::store::outside(&file).await;
    let begin = sqlx::query("BEGIN IMMEDIATE").execute(&mut holder);
    begin.await.unwrap();
    for _ in 0..3 {
        heed_every_callsite();
        let mut asked = Box::pin(ask(&api, SECOND, Method::POST, path, body()));
        assert!(futures_util::poll!(&mut asked).is_pending());
    }
    sqlx::query("COMMIT").execute(&mut holder).await.unwrap();
    loop {
        let (_, page) = api.get("/api/v1/operations?state=reserved").await;
        if page["operations"].as_array().unwrap().len() == 4 {
            break;
        }
    }
    let text = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8(text.clone()).unwrap();
    let told = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].clone())
        .filter(|f| f["token"] == "deploys" && f["path"] == "/reservations");
    assert_eq!(told.count(), 3, "{text}");
}
