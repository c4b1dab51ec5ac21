//! Bulk recovery: bounded pages that together are everything that fits, and only that.

use super::*;
use hookledger::store::{Close, WorkFailure};

/// Every page of a bulk request: what was matched and done, and how many pages there were.
async fn all(api: &Api, path: &str, mut body: Value) -> (u64, u64, u32) {
    let (mut matched, mut done, mut pages) = (0, 0, 0);
    loop {
        let (status, page) = api.post(path, body.clone()).await;
        assert_eq!(status, 200, "{page}");
        let count = |field: &str| page[field].as_u64().unwrap();
        let limit = body["limit"].as_u64().unwrap_or(100);
        assert!(count("matched") <= limit);
        assert_eq!(
            page["dry_run"],
            body.get("dry_run").unwrap_or(&json!(false)).clone()
        );
        matched += count("matched");
        done += count("done");
        pages += 1;
        if page["next_cursor"].is_null() {
            return (matched, done, pages);
        }
        body["cursor"] = page["next_cursor"].clone();
    }
}

async fn events(api: &Api) -> usize {
    let (_, page) = api.get("/api/v1/events?limit=500").await;
    page["events"].as_array().unwrap().len()
}

#[tokio::test]
async fn deliveries_are_replayed_by_the_page_and_no_replay_is() {
    let api = Api::new().await;
    let path = "/api/v1/events/replay";
    for n in 0..7 {
        api.deliver(&format!("id:{n}"), Some(&format!("batches/n{n}")), b"{}")
            .await;
        api.world.advance(Duration::from_mins(1));
    }
    let since = crate::support::NOON
        .after(Duration::from_mins(2))
        .to_string();
    let body = |dry_run: bool| json!({"since": since, "dry_run": dry_run, "limit": 2});
    assert_eq!(all(&api, path, body(true)).await, (5, 0, 3));
    assert_eq!(events(&api).await, 7, "a dry run changes nothing");
    assert_eq!(all(&api, path, body(false)).await, (5, 5, 3));
    assert_eq!(events(&api).await, 12);
    // The five of before and not their copies.
    assert_eq!(all(&api, path, body(false)).await, (5, 5, 3));
    let narrowed =
        json!({"since": since, "q": "batches/n3", "source": "gemini", "type": "batch.succeeded"});
    assert_eq!(all(&api, path, narrowed).await, (1, 1, 1));
    let (status, problem) = api.post(path, json!({})).await;
    assert_eq!(status, 400);
    assert!(
        problem["detail"].as_str().unwrap().starts_with("since: "),
        "{problem}"
    );
}

#[tokio::test]
async fn an_emptied_delivery_is_left_alone() {
    let api = Api::new().await;
    api.deliver("id:1", Some("batches/a"), b"{}").await;
    let empty = "UPDATE captured_events SET body = x'', emptied_at_ms = 1";
    crate::support::sql(&api.world.base.dir, empty).await;
    let (_, page) = api
        .post(
            "/api/v1/events/replay",
            json!({"since": crate::support::NOON}),
        )
        .await;
    let wanted =
        json!({"dry_run": false, "matched": 1, "done": 0, "skipped": 1, "next_cursor": null});
    assert_eq!(page, wanted);
}

#[tokio::test]
async fn dead_items_are_put_back_by_the_page() {
    let api = Api::new().await;
    for n in 0..5 {
        api.deliver(&format!("id:{n}"), Some(&format!("batches/n{n}")), b"{}")
            .await;
    }
    let store = &api.world.base.store;
    for lease in store.claim(9, 9, 9, Duration::from_mins(1)).await.unwrap() {
        let failure = WorkFailure {
            again_at: api.world.base.clock.now(),
            why: "poison".to_owned(),
            charged: true,
        };
        store
            .close_lease(&lease, Close::Again(failure, 1))
            .await
            .unwrap();
    }
    let path = "/api/v1/queue/retry";
    assert_eq!(
        all(&api, path, json!({"reason": "operator"})).await,
        (0, 0, 1)
    );
    let body = json!({"reason": "webhook", "state": "dead", "limit": 2, "dry_run": true});
    assert_eq!(all(&api, path, body).await, (5, 0, 3));
    assert_eq!(all(&api, path, json!({"q": "n1"})).await, (1, 1, 1));
    assert_eq!(
        all(&api, path, json!({"reason": "webhook", "limit": 2})).await,
        (4, 4, 2)
    );
    for (body, told) in [
        (json!({"state": "done"}), "state must be dead"),
        (json!({"id": 1, "reason": "webhook"}), "id names one item"),
        (json!({"limit": 0}), "limit must be a number from 1 to 500"),
        (json!({"cursor": "x"}), "cursor must be"),
    ] {
        let (status, problem) = api.post(path, body).await;
        assert_eq!(status, 400);
        assert!(
            problem["detail"].as_str().unwrap().contains(told),
            "{problem}"
        );
    }
}

#[tokio::test]
async fn stuck_effects_are_due_again_by_the_page_with_their_keys() {
    let api = Api::new().await;
    let (path, id) = ("/api/v1/effects/retry", api.alert().await);
    let (_, before) = api.get(&format!("/api/v1/effects/{id}")).await;
    let dead = json!({"as": "dead"});
    api.post(&format!("/api/v1/effects/{id}/resolve"), dead)
        .await;
    assert_eq!(all(&api, path, json!({"state": "held"})).await, (0, 0, 1));
    assert_eq!(
        all(&api, path, json!({"state": "dead", "effect": "other"})).await,
        (0, 0, 1)
    );
    assert_eq!(
        all(&api, path, json!({"state": "dead", "dry_run": true})).await,
        (1, 0, 1)
    );
    assert_eq!(
        all(&api, path, json!({"state": "dead", "cause": "alert"})).await,
        (1, 1, 1)
    );
    let (_, after) = api.get(&format!("/api/v1/effects/{id}")).await;
    assert_eq!(after["state"], "planned");
    assert_eq!(after["idempotency_key"], before["idempotency_key"]);
    for state in [
        json!({}),
        json!({"state": "done"}),
        json!({"state": "sending"}),
    ] {
        let (status, problem) = api.post(path, state).await;
        assert_eq!(status, 400);
        let told = "state must be one of dead, held, ambiguous";
        assert!(
            problem["detail"].as_str().unwrap().contains(told),
            "{problem}"
        );
    }
}
