//! The public door's answers, row by row.

use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use http::Method;
use reqwest::Response;
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};

use crate::support::outside::{self, Told};
use crate::support::process::eventually;
use crate::support::stand::{PATH_TOKEN, SHARED, SOON, Stand, silent, succeeded};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_case_has_its_answer() {
    let stand = Stand::up().await;

    // A path that does not exist, a source nobody configured, a wrong token: the same bytes.
    let unknown = whole(post(&stand, "/nowhere/at/all").await).await;
    assert_eq!(unknown.0, 404);
    let wrong_token = PATH_TOKEN.replace('0', "1");
    for path in [
        format!("/hooks/stripe/{PATH_TOKEN}"),
        format!("/hooks/gemini/{wrong_token}"),
        format!("/hooks/gemini/{PATH_TOKEN}x"),
        format!("/hooks/gemini/{PATH_TOKEN}/more"),
        "/hooks/gemini/x".to_owned(),
        "/hooks/gemini/".to_owned(),
        "/hooks".to_owned(),
    ] {
        assert_eq!(whole(post(&stand, &path).await).await, unknown, "{path}");
    }

    let bodies = refusals(&stand).await;
    assert!(
        bodies.iter().all(|b| b == &bodies[0]),
        "401 has one body: {bodies:?}"
    );
    assert!(bodies[0].1.contains("\"unauthorized\""), "{bodies:?}");

    let large = stand
        .signed("large", vec![b' '; 256 * 1024 + 1])
        .send()
        .await
        .unwrap();
    assert_eq!(large.status(), 413);
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH] {
        let path = format!("/hooks/gemini/{PATH_TOKEN}");
        let answer = stand.request(method.clone(), &path).send().await.unwrap();
        assert_eq!(answer.status(), 405, "{method}");
    }
    let nothing = "SELECT count(*) FROM captured_events";
    assert_eq!(
        outside::count(&stand.db(), nothing).await,
        0,
        "refused, so not stored"
    );

    for (id, body) in [
        ("text", "this is no JSON".to_owned()),
        ("ping", json!({"type": "ping"}).to_string()),
        (
            "new",
            json!({"type": "model.tuned", "data": {}}).to_string(),
        ),
        (
            "running",
            json!({"type": "batch.running", "data": {"id": "batches/aaaabbbbcccc"}}).to_string(),
        ),
        ("empty", String::new()),
    ] {
        let expected = if id == "running" {
            ["ignored", "accepted"]
        } else {
            ["ignored"; 2]
        };
        let (status, word) = stand.deliver(id, body).await;
        assert_eq!(status, 200, "{id}");
        assert!(expected.contains(&&*word), "{id}: {word}");
    }
    let (status, word) = stand.deliver("text", "this is no JSON").await;
    assert_eq!((status, &*word), (200, "duplicate"));

    let name = stand.gemini.start(silent(false)).unwrap();
    let body = succeeded(&name);
    assert_eq!(
        stand.deliver("first", body.clone()).await,
        (200, "accepted".to_owned())
    );
    assert_eq!(
        stand.deliver("first", body).await,
        (200, "duplicate".to_owned())
    );
    stand.settled(&name).await;
}

/// Deliveries without a whole proof, each answered 401.
async fn refusals(stand: &Stand) -> Vec<(u16, String)> {
    let path = format!("/hooks/gemini/{PATH_TOKEN}");
    let good = |id: &str| stand.signed(id, "{}").build().unwrap();
    let mut requests = vec![
        stand
            .request(Method::POST, &path)
            .body("{}")
            .build()
            .unwrap(),
        stand
            .request(Method::POST, &path)
            .header("x-hook-secret", "wrong")
            .body("{}")
            .build()
            .unwrap(),
    ];
    let mut wrong_secret = good("wrong-secret");
    wrong_secret
        .headers_mut()
        .insert("x-hook-secret", SHARED.replace('9', "8").parse().unwrap());
    let mut wrong_signature = good("wrong-signature");
    let forged = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
        .parse()
        .unwrap();
    wrong_signature
        .headers_mut()
        .insert("webhook-signature", forged);
    let mut other_id = good("signed-id");
    other_id
        .headers_mut()
        .insert("webhook-id", "other-id".parse().unwrap());
    let mut no_timestamp = good("no-timestamp");
    no_timestamp.headers_mut().remove("webhook-timestamp");
    let mut old = good("old");
    old.headers_mut()
        .insert("webhook-timestamp", "1700000000".parse().unwrap());
    let mut twice = good("twice");
    let signature = twice.headers()["webhook-signature"].clone();
    twice.headers_mut().append("webhook-signature", signature);
    let mut other_body = good("other-body");
    *other_body.body_mut() = Some("{ }".into());
    requests.extend([
        wrong_secret,
        wrong_signature,
        other_id,
        no_timestamp,
        old,
        twice,
        other_body,
    ]);
    let mut answers = Vec::new();
    for request in requests {
        let shown = format!("{:?}", request.headers().get("webhook-id"));
        let answer = whole(stand.http.execute(request).await.unwrap()).await;
        assert_eq!(answer.0, 401, "{shown}");
        answers.push(answer);
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_cannot_commit_is_503_and_nothing_is_lost() {
    let stand = Stand::up().await;
    let name = stand.gemini.start(silent(false)).unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(stand.db());
    let mut other = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut other)
        .await
        .unwrap();
    // The busy time-out is 5 s; whoever comes while a commit waits is refused together with it.
    let bodies = (0..4).map(|n| (n, succeeded(&name)));
    let answers = bodies.map(|(n, body)| {
        let request = stand.signed(&format!("held-{n}"), body);
        async {
            let answer = tokio::time::timeout(Duration::from_secs(9), request.send()).await;
            let answer = answer
                .expect("answered long after the busy time-out")
                .unwrap();
            let retry_after = answer.headers().get("retry-after").cloned();
            (answer.status(), retry_after)
        }
    });
    for (status, retry_after) in futures_util::future::join_all(answers).await {
        assert_eq!(status, 503);
        let seconds: u64 = retry_after.unwrap().to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
    let ready = async || {
        stand
            .request(Method::GET, "/readyz")
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(ready().await, 503);
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    eventually("it is ready again", SOON, async || {
        (ready().await == 200).then_some(())
    })
    .await;
    let (status, word) = stand.deliver("held-0", succeeded(&name)).await;
    assert_eq!(
        (status, &*word),
        (200, "accepted"),
        "refused, so not seen before"
    );
    stand.settled(&name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_too_much_waits_for_its_commit_the_answer_is_503_at_once() {
    let stand = Stand::with(&[("hooks.max_waiting", "'512KiB'")]).await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(stand.db());
    let mut other = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut other)
        .await
        .unwrap();
    let clock = SystemClock::new();
    let answers = (0..8).map(|n| {
        let request = stand.signed(&format!("much-{n}"), vec![b'x'; 200 * 1024]);
        let clock = &clock;
        async move {
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 503);
            assert!(answer.headers().contains_key("retry-after"));
            clock.monotonic()
        }
    });
    let answered = futures_util::future::join_all(answers).await;
    // Two fit and wait for the lock; the others are not kept.
    let at_once = answered
        .iter()
        .filter(|at| **at < Duration::from_secs(4))
        .count();
    assert_eq!(at_once, 6, "{answered:?}");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let (status, word) = stand.deliver("much-0", "{}").await;
    assert_eq!((status, &*word), (200, "ignored"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_refuses_the_commit_is_503_and_ends_the_process() {
    // The log is a file as well, and should not meet the limit first.
    let mut stand = Stand::with(&[("log.filter", "'warn'")]).await;
    stand.kill().await;
    stand.start_limited(1024).await;
    // Without an operation in them nobody else writes, so it is a delivery that meets the limit.
    let body = |n: usize| format!("{n}{}", "x".repeat(60_000));
    let mut told = Told::default();
    let mut refused = None;
    for n in 0..40 {
        let id = format!("large-{n}");
        let answer = stand.signed(&id, body(n)).send().await.unwrap();
        if answer.status() != 200 {
            assert_eq!(answer.status(), 503);
            assert!(answer.headers().contains_key("retry-after"));
            refused = Some((id, n));
            break;
        }
        told.stored.insert(id);
    }
    let (id, n) = refused.expect("the disk took it all");
    assert!(!told.stored.is_empty(), "nothing was taken at first");
    // Only a restart can check the file: a supervisor must see a failure.
    let mut service = stand.take();
    let status = service.ended(SOON).await;
    assert_eq!(status.code(), Some(1), "{}", service.logged());
    told.refused.insert(id.clone());
    outside::check_stored(&stand.db(), &told).await;
    stand.start().await;
    let answer = stand.deliver(&id, body(n)).await;
    assert_eq!(answer, (200, "ignored".to_owned()));
    told.refused.clear();
    told.stored.insert(id);
    outside::check_stored(&stand.db(), &told).await;
    outside::check_file(&stand.db()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_copies_at_once_one_is_accepted_and_one_effect_arrives() {
    let stand = Stand::up().await;
    let name = stand.gemini.start(silent(false)).unwrap();
    let copies = (0..10).map(|_| stand.deliver("copied", succeeded(&name)));
    let answers = futures_util::future::join_all(copies).await;
    let told = |word: &str| {
        answers
            .iter()
            .filter(|a| **a == (200, word.to_owned()))
            .count()
    };
    assert_eq!((told("accepted"), told("duplicate")), (1, 9), "{answers:?}");
    stand.settled(&name).await;
    assert_eq!(stand.sink.about(&name).len(), 1);
    let rows = "SELECT count(*) FROM effects";
    assert_eq!(outside::count(&stand.db(), rows).await, 1);
    let folded = "SELECT duplicates FROM processed_events WHERE dedupe_key = 'id:copied'";
    assert_eq!(outside::count(&stand.db(), folded).await, 9);
}

async fn post(stand: &Stand, path: &str) -> Response {
    let proven = stand.signed("unknown-path", "{}").build().unwrap();
    let mut request = stand
        .request(Method::POST, path)
        .body("{}")
        .build()
        .unwrap();
    *request.headers_mut() = proven.headers().clone();
    stand.http.execute(request).await.unwrap()
}

/// Status, body, and the headers that could tell one case from another.
async fn whole(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let mut headers = answer.headers().clone();
    // These differ between any two answers, or say whether the request's body was read.
    for name in ["x-request-id", "date", "connection"] {
        headers.remove(name);
    }
    let mut shown: Vec<String> = headers.iter().map(|h| format!("{h:?}")).collect();
    shown.sort();
    shown.push(answer.text().await.unwrap());
    (status, shown.join("\n"))
}
