//! Lists: pages, filters, and the dead letters put back.

use super::*;
use hookledger::store::{Close, WorkFailure};

#[tokio::test]
async fn pages_follow_one_another_newest_first_without_gaps() {
    let api = Api::new().await;
    for n in 0..5 {
        api.register(&format!("batches/n{n}")).await;
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/operations?state=&limit=2&cursor={cursor}");
        let (status, page) = api.get(&path).await;
        assert_eq!(status, 200, "{page}");
        for one in page["operations"].as_array().unwrap() {
            names.push(one["name"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        next.clone_into(&mut cursor);
    }
    let wanted = [
        "batches/n4",
        "batches/n3",
        "batches/n2",
        "batches/n1",
        "batches/n0",
    ];
    assert_eq!(names, wanted);
    let (_, page) = api.get("/api/v1/operations?state=succeeded").await;
    assert_eq!(page, json!({"operations": [], "next_cursor": null}));
}

#[tokio::test]
async fn events_are_found_by_name_segment_and_ledger_id() {
    let api = Api::new().await;
    let id = api.register("batches/abc").await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    api.deliver("id:1", Some("batches/abc"), b"{}").await;
    api.deliver("id:2", Some("batches/other"), b"{}").await;
    for which in ["batches/abc", "abc", &id] {
        let (_, page) = api.get(&format!("/api/v1/events?operation={which}")).await;
        let events = page["events"].as_array().unwrap();
        assert_eq!(events.len(), 1, "{which}");
        assert_eq!(events[0]["operation"], "batches/abc");
    }
    let (_, page) = api.get("/api/v1/events").await;
    assert_eq!(page["events"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn dead_items_are_put_back_one_by_one_or_all() {
    let api = Api::new().await;
    for n in 0..3 {
        api.deliver(&format!("id:{n}"), Some(&format!("batches/n{n}")), b"{}")
            .await;
    }
    let store = &api.world.base.store;
    let leases = store.claim(9, 9, 9, Duration::from_mins(1)).await.unwrap();
    assert_eq!(leases.len(), 3);
    for lease in &leases {
        let failure = WorkFailure {
            again_at: api.world.base.clock.now(),
            why: "the answer could not be read".to_owned(),
            charged: true,
        };
        store
            .close_lease(lease, Close::Again(failure, 1))
            .await
            .unwrap();
    }
    let dead = |api: Value| api["items"].as_array().unwrap().len();
    let (_, page) = api.get("/api/v1/queue?state=dead").await;
    assert_eq!(
        page["items"][0]["last_error"],
        "the answer could not be read"
    );
    assert_eq!(dead(page), 3);
    let (status, one) = api
        .post("/api/v1/queue/retry", json!({"id": leases[0].id}))
        .await;
    assert_eq!((status.as_u16(), &one["done"]), (200, &json!(1)), "{one}");
    let nothing = request(Method::POST, "/api/v1/queue/retry", None);
    let (_, rest) = read(api.send(nothing).await).await;
    let all = json!({"dry_run": false, "matched": 2, "done": 2, "skipped": 0, "next_cursor": null});
    assert_eq!(rest, all);
    assert_eq!(dead(api.get("/api/v1/queue?state=dead").await.1), 0);
    assert_eq!(dead(api.get("/api/v1/queue?state=ready").await.1), 3);
}

#[tokio::test]
async fn alerts_and_effects_are_listed() {
    let api = Api::new().await;
    assert_eq!(api.get("/api/v1/alerts").await.1, json!({"alerts": []}));
    let id = api.alert().await;
    let (_, alerts) = api.get("/api/v1/alerts").await;
    assert_eq!(
        alerts,
        json!({"alerts": [{
            "subject": "queue/dead",
            "summary": "2 work items were given up",
            "opened_at": crate::support::NOON,
            "recovered_at": null,
        }]})
    );
    let (_, effects) = api.get("/api/v1/effects?state=planned").await;
    assert_eq!(effects["effects"][0]["id"], id.to_string());
    assert_eq!(effects["effects"][0]["cause"], "alert");
    let (_, effects) = api.get("/api/v1/effects?state=dead").await;
    assert_eq!(effects["effects"], json!([]));
}

#[tokio::test]
async fn every_filter_narrows_its_list() {
    let api = Api::new().await;
    let start = api.world.base.clock.now();
    for name in ["batches/a1", "batches/b1", "interactions/a2"] {
        api.register(name).await;
        api.world.advance(Duration::from_mins(1));
    }
    api.deliver("id:1", Some("batches/a1"), b"{}").await;
    api.deliver("id:2", Some("interactions/a2"), b"{}").await;
    api.alert().await;
    let second = start.after(Duration::from_mins(1));
    for (path, list, wanted) in [
        ("operations?q=a", "operations", 2),
        ("operations?q=batches/", "operations", 2),
        ("operations?q=batches/a1&kind=batch", "operations", 1),
        ("operations?kind=interaction", "operations", 1),
        ("operations?job_kind=nightly&state=pending", "operations", 3),
        ("operations?job_kind=hourly", "operations", 0),
        ("operations?settled_by=webhook", "operations", 0),
        ("operations?overdue=true", "operations", 0),
        ("operations?overdue=false&told=undecided", "operations", 3),
        (&format!("operations?since={second}"), "operations", 2),
        (
            &format!("operations?until={second}&q=&kind="),
            "operations",
            1,
        ),
        ("events?q=a", "events", 2),
        ("events?q=batches/&source=gemini", "events", 1),
        ("events?type=batch.succeeded&verdict=accepted", "events", 2),
        ("events?type=batch.failed", "events", 0),
        (&format!("events?until={second}"), "events", 0),
        ("queue?reason=webhook&state=ready", "items", 2),
        ("queue?reason=register", "items", 0),
        ("queue?q=a1", "items", 1),
        (&format!("queue?since={start}"), "items", 2),
        ("effects?effect=pager&cause=alert", "effects", 1),
        ("effects?effect=other", "effects", 0),
        (&format!("effects?q=a&since={second}"), "effects", 0),
    ] {
        let (status, page) = api.get(&format!("/api/v1/{path}")).await;
        assert_eq!(status, 200, "{path}: {page}");
        assert_eq!(
            page[list].as_array().unwrap().len(),
            wanted,
            "{path}: {page}"
        );
    }
}

#[tokio::test]
async fn a_filter_that_is_no_word_is_told_by_its_name() {
    let api = Api::new().await;
    for (path, told) in [
        ("operations?kind=video2", "kind must be one of batch, video"),
        (
            "operations?settled_by=me",
            "settled_by must be one of webhook",
        ),
        (
            "operations?overdue=yes",
            "overdue must be one of true, false",
        ),
        ("operations?told=x", "told must be one of undecided"),
        (
            "operations?job_kind=.x",
            "job_kind must be 1 to 64 characters",
        ),
        ("operations?q=a%20b", "q must be the beginning of"),
        ("operations?since=yesterday", "since: not an RFC 3339 time"),
        ("operations?limits=1", "unknown field `limits`"),
        (
            "events?verdict=duplicate",
            "verdict must be one of accepted, ignored",
        ),
        ("events?type=a%00", "type must be at most 256 bytes"),
        ("queue?reason=x", "reason must be one of webhook"),
        ("effects?until=1", "until: not an RFC 3339 time"),
    ] {
        let (status, problem) = api.get(&format!("/api/v1/{path}")).await;
        assert_eq!(status, 400, "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(told), "{path}: {detail}");
    }
}
