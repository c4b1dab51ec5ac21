//! `Idempotency-Key`: carried out once, answered as often as asked.

use super::*;
use hookledger::store::{Begun, KeyedRequest};

fn keyed(path: &str, key: &str, body: &Value) -> Request<Body> {
    let mut request = request(Method::POST, path, Some(body.clone()));
    request
        .headers_mut()
        .append("idempotency-key", key.parse().unwrap());
    request
}

/// Status, whether it is an answer of before, and the document.
async fn ask(api: &Api, path: &str, key: &str, body: &Value) -> (u16, bool, Value) {
    let response = api.send(keyed(path, key, body)).await;
    let again = response.headers().contains_key("idempotency-replayed");
    let (status, document) = read(response).await;
    (status.as_u16(), again, document)
}

const RESERVE: &str = "/api/v1/reservations";

async fn reserved(api: &Api) -> usize {
    let (_, page) = api.get("/api/v1/operations?state=reserved").await;
    page["operations"].as_array().unwrap().len()
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer_and_is_carried_out_once() {
    let api = Api::new().await;
    let body = json!({"job_kind": "nightly"});
    let (status, again, first) = ask(&api, RESERVE, "k1", &body).await;
    assert_eq!((status, again), (201, false), "{first}");
    // Quotation marks are the draft's way to write the same key.
    for key in ["k1", "\"k1\""] {
        assert_eq!(
            ask(&api, RESERVE, key, &body).await,
            (201, true, first.clone())
        );
    }
    assert_eq!(reserved(&api).await, 1);
    // Another key, or none, is another request.
    let (_, again, second) = ask(&api, RESERVE, "k2", &body).await;
    assert!(!again && second["id"] != first["id"]);
    api.post(RESERVE, body).await;
    assert_eq!(reserved(&api).await, 3);
}

#[tokio::test]
async fn a_refusal_is_an_answer_too_and_another_request_is_refused() {
    let api = Api::new().await;
    let bad = json!({"job_kind": ".x"});
    let (status, _, problem) = ask(&api, RESERVE, "k", &bad).await;
    assert_eq!(status, 400);
    assert_eq!(ask(&api, RESERVE, "k", &bad).await, (400, true, problem));
    for (path, body) in [
        (RESERVE, json!({"job_kind": "nightly"})),
        ("/api/v1/operations", bad.clone()),
    ] {
        let (status, again, problem) = ask(&api, path, "k", &body).await;
        assert_eq!((status, again), (422, false), "{path}");
        assert_eq!(problem["code"], "key_reused");
    }
}

#[tokio::test]
async fn a_key_is_its_token_s_and_lasts_a_day() {
    let other = "other-admin-token-0123456789abcdefgh";
    let toml = format!(
        "{}[[admin.tokens]]\nname = \"other\"\ntoken = \"{other}\"\nscope = \"full\"\n",
        open()
    );
    let api = Api::with(&toml).await;
    let body = json!({"job_kind": "nightly"});
    ask(&api, RESERVE, "k", &body).await;
    let mut theirs = keyed(RESERVE, "k", &body);
    let bearer = format!("Bearer {other}").parse().unwrap();
    theirs.headers_mut().insert("authorization", bearer);
    assert!(
        !api.send(theirs)
            .await
            .headers()
            .contains_key("idempotency-replayed")
    );
    api.world
        .advance(Duration::from_hours(24) - Duration::from_millis(1));
    assert!(ask(&api, RESERVE, "k", &body).await.1);
    api.world.advance(Duration::from_millis(1));
    assert!(!ask(&api, RESERVE, "k", &body).await.1, "the day is over");
    api.world.advance(Duration::from_hours(25));
    let (_, over) = api.get("/api/v1/prune").await;
    let requests = over["over"]
        .as_array()
        .unwrap()
        .iter()
        .find(|o| o["what"] == "requests");
    assert_eq!(requests.unwrap()["rows"], 2);
    let world = &api.world;
    let (clock, settings): (Arc<dyn Clock>, _) = (world.base.clock.clone(), &world.settings);
    let upkeep = Upkeep::new(
        world.base.store.clone(),
        world.planner.clone(),
        clock,
        settings,
    );
    assert_eq!(upkeep.step().await.unwrap().requests, 2);
}

#[tokio::test]
async fn a_request_that_was_cut_off_is_never_carried_out_again() {
    let api = Api::new().await;
    let body = json!({"job_kind": "nightly"});
    ask(&api, RESERVE, "k", &body).await;
    // As a process that died before it wrote the answer down would leave it.
    let cut = "UPDATE requests SET status = NULL, answer = NULL";
    crate::support::sql(&api.world.base.dir, cut).await;
    let (status, _, problem) = ask(&api, RESERVE, "k", &body).await;
    assert_eq!((status, &problem["code"]), (409, &json!("unfinished")));
    assert_eq!(reserved(&api).await, 1);
}

#[tokio::test]
async fn a_key_in_use_is_refused_and_one_that_hangs_up_is_carried_out() {
    let api = Api::new().await;
    let body = json!({"job_kind": "nightly"});
    // Somebody holds the file, so the first request waits for its commit.
    let path = crate::support::options(&api.world.base.dir).path;
    let mut holder = crate::store::outside(&path).await;
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut holder)
        .await
        .unwrap();
    let mut first = Box::pin(api.send(keyed(RESERVE, "k", &body)));
    assert!(futures_util::poll!(&mut first).is_pending());
    let (status, _, problem) = ask(&api, RESERVE, "k", &body).await;
    assert_eq!((status, &problem["code"]), (409, &json!("in_progress")));
    drop(first);
    sqlx::query("COMMIT").execute(&mut holder).await.unwrap();
    // Whoever asked is gone, and the request goes on.
    loop {
        let (status, again, _) = ask(&api, RESERVE, "k", &body).await;
        if status != 409 {
            assert_eq!((status, again), (201, true));
            break;
        }
        assert!(reserved(&api).await <= 1);
    }
    assert_eq!(reserved(&api).await, 1);
}

#[tokio::test]
async fn a_key_that_is_none_is_told() {
    let api = Api::new().await;
    let body = json!({"job_kind": "nightly"});
    let long = "k".repeat(256);
    for key in ["", "\"\"", "a b", &long] {
        let (status, _, problem) = ask(&api, RESERVE, key, &body).await;
        assert_eq!(status, 400, "{key}");
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .starts_with("Idempotency-Key: ")
        );
    }
    let mut twice = keyed(RESERVE, "a", &body);
    twice
        .headers_mut()
        .append("idempotency-key", "b".parse().unwrap());
    assert_eq!(api.send(twice).await.status(), 400);
    assert_eq!(reserved(&api).await, 0);
}

#[tokio::test]
async fn no_url_of_a_reservation_is_kept_and_no_more_keys_than_the_bound() {
    let api = Api::new().await;
    let (_, _, first) = ask(&api, RESERVE, "k", &json!({"job_kind": "nightly"})).await;
    let token = first["webhook_path"]
        .as_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap()
        .to_owned();
    let mut file = crate::store::outside(&crate::support::options(&api.world.base.dir).path).await;
    let kept: Vec<u8> = sqlx::query_scalar("SELECT answer FROM requests")
        .fetch_one(&mut file)
        .await
        .unwrap();
    let kept = String::from_utf8(kept).unwrap();
    assert!(
        kept.contains("/hooks/gemini/") && !kept.contains(&token),
        "{kept}"
    );
    // The bound counts from the oldest id to the newest.
    let far = "UPDATE sqlite_sequence SET seq = 100000 WHERE name = 'requests'";
    sqlx::query(far).execute(&mut file).await.unwrap();
    let request = |key: &str| KeyedRequest {
        token: "admin".to_owned(),
        key: key.to_owned(),
        fingerprint: "f".to_owned(),
    };
    let store = &api.world.base.store;
    let keep = Duration::from_hours(1);
    assert_eq!(
        store.begin_request(request("a"), keep).await.unwrap(),
        Begun::New
    );
    assert_eq!(
        store.begin_request(request("b"), keep).await.unwrap(),
        Begun::Full
    );
    let (status, _, _) = ask(&api, RESERVE, "c", &json!({"job_kind": "nightly"})).await;
    assert_eq!(status, 503);
}

#[tokio::test]
async fn what_the_client_gave_is_answered_again_as_it_was() {
    let api = Api::new().await;
    let body = json!({
        "job_kind": "nightly",
        "user_metadata": {"note": "a <token> of mine", "webhook_path": "/<token>", "n": 0.1},
    });
    let (status, _, first) = ask(&api, RESERVE, "k", &body).await;
    assert_eq!(status, 201, "{first}");
    assert_eq!(first["user_metadata"]["note"], "a <token> of mine");
    assert_eq!(ask(&api, RESERVE, "k", &body).await, (201, true, first));
}

#[tokio::test]
async fn a_page_of_replays_that_is_cut_short_is_kept_and_goes_on() {
    let api = Api::new().await;
    // The waiting room takes one of the big ones and not two at a time; the small one, which comes
    // last, finds room beside one.
    let big = format!("{{}}{}", " ".repeat(5 << 20));
    for (n, text) in ["{}", &big, &big, &big].into_iter().enumerate() {
        let name = format!("batches/n{n}");
        api.deliver(&format!("id:{n}"), Some(&name), text.as_bytes())
            .await;
    }
    let path = "/api/v1/events/replay";
    let mut body = json!({"since": crate::support::NOON});
    let (mut written, mut short) = (0, 0);
    for page in 0..4 {
        let key = format!("k{page}");
        let (status, again, answer) = ask(&api, path, &key, &body).await;
        assert_eq!((status, again), (200, false), "{answer}");
        let done = answer["done"].as_u64().unwrap();
        assert!(done > 0, "{answer}");
        assert_eq!(answer["matched"], done);
        written += done;
        assert_eq!(
            ask(&api, path, &key, &body).await,
            (200, true, answer.clone())
        );
        if answer["next_cursor"].is_null() {
            break;
        }
        short += 1;
        body["cursor"] = answer["next_cursor"].clone();
    }
    assert!(short > 0, "the room was wide enough");
    let mut file = crate::store::outside(&crate::support::options(&api.world.base.dir).path).await;
    let of: Vec<i64> = sqlx::query_scalar(
        "SELECT count(r.id) FROM captured_events c LEFT JOIN captured_events r ON r.replay_of = c.id \
         WHERE c.replay_of IS NULL GROUP BY c.id",
    )
    .fetch_all(&mut file)
    .await
    .unwrap();
    assert_eq!(of.len(), 4);
    assert!(of.iter().all(|replays| *replays > 0), "{of:?}");
    assert_eq!(of.iter().sum::<i64>(), i64::try_from(written).unwrap());
}

#[tokio::test]
async fn a_page_of_which_nothing_was_replayed_is_a_503() {
    let api = Api::new().await;
    let big = format!("{{}}{}", " ".repeat(5 << 20));
    api.deliver("id:1", Some("batches/a"), big.as_bytes()).await;
    let path = crate::support::options(&api.world.base.dir).path;
    let body = json!({"since": crate::support::NOON});
    let mut holder = crate::store::outside(&path).await;
    // Another delivery fills the room: the file is held while it waits for its commit.
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut holder)
        .await
        .unwrap();
    let mut waits = Box::pin(api.deliver("id:2", Some("batches/b"), big.as_bytes()));
    assert!(futures_util::poll!(&mut waits).is_pending());
    let bare = request(Method::POST, "/api/v1/events/replay", Some(body.clone()));
    let (status, problem) = read(api.send(bare).await).await;
    assert_eq!(status, 503, "{problem}");
    sqlx::query("COMMIT").execute(&mut holder).await.unwrap();
    waits.await;
}
