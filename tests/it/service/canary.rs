//! Secrets and bodies stay where they belong: not in logs, metrics, answers or columns of text.

use http::Method;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _};

use crate::support::outside;
use crate::support::stand::{
    ADMIN_TOKEN, API_KEY, PATH_TOKEN, SHARED, SIGNING, SINK_SECRET, Stand, silent,
};

const IN_BODY: &str = "canary-in-the-body-2468";
const WRONG: &str = "canary-wrong-guess-1357";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_and_no_body_shows_up_where_it_should_not() {
    let mut stand = Stand::up().await;
    let name = stand.gemini.start(silent(false)).unwrap();
    stand.sink.answer_next([500]);
    let body = json!({"type": "batch.succeeded", "data": {"id": name}, "note": IN_BODY});
    let signature = stand
        .signed("seen", body.to_string())
        .build()
        .unwrap()
        .headers()["webhook-signature"]
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(stand.deliver("seen", body.to_string()).await.0, 200);
    assert_eq!(stand.deliver("text", IN_BODY).await.0, 200);
    stand.settled(&name).await;
    let mut shown = answers(&stand).await;
    shown.push((
        "metrics",
        stand
            .http
            .get(format!("http://{}/metrics", stand.admin))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
    ));
    shown.push((
        "health",
        stand
            .http
            .get(format!("http://{}/healthz", stand.admin))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
    ));
    stand.service().terminate();
    stand
        .service()
        .ended(std::time::Duration::from_secs(9))
        .await;
    let log = stand.service().logged();
    assert!(log.contains("operation settled"), "the log is there");
    shown.push(("log", log));
    shown.push(("text columns", text_columns(&stand).await));
    let stripped = |secret: &str| secret.trim_start_matches("whsec_").to_owned();
    let mut canaries: Vec<String> = [PATH_TOKEN, SHARED, ADMIN_TOKEN, API_KEY, IN_BODY, WRONG]
        .map(ToOwned::to_owned)
        .into();
    canaries.extend([stripped(SIGNING), stripped(SINK_SECRET)]);
    for (place, text) in &shown {
        for canary in &canaries {
            assert!(!text.contains(canary.as_str()), "{canary} in {place}");
        }
        // The signature is kept with the captured headers, for replay, and only there.
        let expected = *place == "text columns";
        assert!(
            expected || !text.contains(&signature),
            "a signature in {place}"
        );
    }
}

/// Answers to requests that carry what must not come back.
async fn answers(stand: &Stand) -> Vec<(&'static str, String)> {
    let hook = format!("/hooks/gemini/{PATH_TOKEN}");
    let path = format!("/hooks/gemini/{WRONG}");
    let requests = [
        ("404", stand.request(Method::POST, &path).body(IN_BODY)),
        (
            "401",
            stand
                .request(Method::POST, &hook)
                .header("x-hook-secret", WRONG)
                .body(IN_BODY),
        ),
        ("413", stand.signed("large", IN_BODY.repeat(20_000))),
        ("405", stand.request(Method::GET, &hook)),
        (
            "admin 401",
            stand
                .http
                .get(format!("http://{}/api/v1/operations", stand.admin))
                .bearer_auth(WRONG),
        ),
        (
            "admin 404",
            stand.admin(Method::GET, &format!("/operations/batches/{WRONG}")),
        ),
        (
            "admin 400",
            stand
                .admin(Method::POST, "/operations")
                .body(format!("{{\"{WRONG}\"")),
        ),
        (
            "admin 422",
            stand
                .admin(Method::POST, "/operations")
                .json(&json!({"name": IN_BODY, "job_kind": WRONG})),
        ),
    ];
    let mut shown = Vec::new();
    for (what, request) in requests {
        let answer = request.send().await.unwrap();
        assert!(
            answer.status().as_u16() >= 400,
            "{what}: {}",
            answer.status()
        );
        shown.push((what, answer.text().await.unwrap()));
    }
    shown
}

/// All that is stored as text, in every table.
async fn text_columns(stand: &Stand) -> String {
    let db = stand.db();
    let tables = outside::texts(
        &db,
        "SELECT m.name || '|' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c \
         WHERE m.type = 'table' AND c.type = 'TEXT'",
    )
    .await;
    assert!(tables.iter().any(|t| t == "captured_events|headers"));
    let mut file = outside::open(&db).await;
    let mut all = String::new();
    for column in tables {
        let (table, column) = column.split_once('|').unwrap();
        let query = format!("SELECT coalesce(group_concat({column}, char(10)), '') FROM {table}");
        let text: String = sqlx::query_scalar(AssertSqlSafe(query))
            .fetch_one(&mut file)
            .await
            .unwrap();
        all.push_str(&text);
        all.push('\n');
    }
    file.close().await.unwrap();
    assert!(all.contains("webhook-signature"), "headers are captured");
    all
}
