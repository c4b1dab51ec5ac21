//! Registering, reserving, showing, retrying.

use super::*;

const BATCH: &str = "batches/abc123";
const VIDEO: &str = "models/veo-3.1/operations/xyz789";

#[tokio::test]
async fn registering_twice_is_the_same_record_and_another_job_kind_a_conflict() {
    let api = Api::new().await;
    let body =
        |kind: &str| json!({"name": BATCH, "job_kind": kind, "user_metadata": {"order": 42}});
    let (status, new) = api.post("/api/v1/operations", body("nightly")).await;
    assert_eq!(status, 201);
    assert_eq!(new["name"], BATCH);
    assert_eq!(new["kind"], "batch");
    assert_eq!(new["job_kind"], "nightly");
    assert_eq!(new["state"], "pending");
    assert_eq!(new["settled_by"], Value::Null);
    assert_eq!(new["side_effect_done"], false);
    assert_eq!(new["user_metadata"], json!({"order": 42}));
    let (status, same) = api.post("/api/v1/operations", body("nightly")).await;
    assert_eq!((status.as_u16(), &same["id"]), (200, &new["id"]));
    let (status, other) = api.post("/api/v1/operations", body("hourly")).await;
    assert_eq!(status, 409);
    assert!(
        other["detail"].as_str().unwrap().contains("nightly"),
        "{other}"
    );
}

#[tokio::test]
async fn an_operation_is_found_by_name_with_slashes_and_by_ledger_id() {
    let api = Api::new().await;
    let id = api.register(VIDEO).await["id"].as_str().unwrap().to_owned();
    for which in [VIDEO, &VIDEO.replace('/', "%2F"), &id] {
        let (status, shown) = api.get(&format!("/api/v1/operations/{which}")).await;
        assert_eq!(status, 200, "{which}");
        assert_eq!(shown["id"], id);
        assert_eq!(shown["kind"], "video");
        assert_eq!(shown["log"][0]["what"], "pending");
        assert_eq!(shown["effects"], json!([]));
    }
    let nobody = Uuid::nil();
    for which in ["batches/nobody", &nobody.to_string()] {
        assert_eq!(api.get(&format!("/api/v1/operations/{which}")).await.0, 404);
    }
}

#[tokio::test]
async fn retry_queues_a_look_also_for_a_name_that_ends_in_retry() {
    let api = Api::new().await;
    api.register(VIDEO).await;
    api.register("batches/retry").await;
    for name in [VIDEO, "batches/retry"] {
        let path = format!("/api/v1/operations/{name}/retry");
        let (status, answer) = read(api.send(request(Method::POST, &path, None)).await).await;
        assert_eq!((status.as_u16(), &answer["name"]), (202, &json!(name)));
        let (_, queue) = api.get("/api/v1/queue?limit=1").await;
        assert_eq!(queue["items"][0]["operation"], name);
        assert_eq!(queue["items"][0]["reason"], "operator");
    }
    let (status, answer) = api
        .post("/api/v1/operations/batches/retry", json!({}))
        .await;
    assert_eq!(
        status, 400,
        "POST reads the last segment as the action: {answer}"
    );
    assert_eq!(api.get("/api/v1/operations/batches/retry").await.0, 200);
    let (status, _) = api.post("/api/v1/operations/batches/abc", json!({})).await;
    assert_eq!(status, 405);
}

#[tokio::test]
async fn a_reservation_mints_a_url_that_the_door_accepts_and_binds_once() {
    let api = Api::new().await;
    let body = json!({"job_kind": "nightly", "user_metadata": {"order": 42}});
    let (status, reserved) = api.post("/api/v1/reservations", body).await;
    assert_eq!(status, 201);
    let id = reserved["id"].as_str().unwrap();
    assert_eq!(
        reserved["user_metadata"],
        json!({"order": 42, "hookledger_id": id})
    );
    let path = reserved["webhook_path"].as_str().unwrap();
    let token = path.strip_prefix("/hooks/gemini/").unwrap();
    let tokens = hookledger::verify::PathTokens::new(&hookledger::base::secret::Secret::new(
        crate::support::PATH_TOKEN,
    ));
    assert_eq!(
        tokens.check(token),
        Some(hookledger::verify::PathProof::Reservation(
            id.parse().unwrap()
        ))
    );
    let url = format!("https://hooks.example.com{path}");
    assert_eq!(reserved["webhook_url"], url);

    let (_, shown) = api.get(&format!("/api/v1/operations/{id}")).await;
    assert_eq!(
        (&shown["state"], &shown["name"]),
        (&json!("reserved"), &Value::Null)
    );
    let retry = format!("/api/v1/operations/{id}/retry");
    assert_eq!(
        api.post(&retry, json!({})).await.0,
        409,
        "nothing to look at"
    );

    let bind = format!("/api/v1/reservations/{id}/bind");
    for _ in 0..2 {
        let (status, bound) = api.post(&bind, json!({"name": BATCH})).await;
        assert_eq!((status.as_u16(), &bound["state"]), (200, &json!("pending")));
        assert_eq!(bound["id"], id);
    }
    let (status, other) = api.post(&bind, json!({"name": VIDEO})).await;
    assert_eq!(status, 409);
    assert!(other["detail"].as_str().unwrap().contains(BATCH), "{other}");
    let nobody = format!("/api/v1/reservations/{}/bind", Uuid::nil());
    assert_eq!(api.post(&nobody, json!({"name": VIDEO})).await.0, 404);
}

#[tokio::test]
async fn an_event_is_shown_whole_and_replayed() {
    let api = Api::new().await;
    let told = api
        .deliver("id:1", Some(BATCH), br#"{"name":"batches/abc123"}"#)
        .await;
    let path = format!("/api/v1/events/{}", told.event_id);
    let (status, shown) = api.get(&path).await;
    assert_eq!(status, 200);
    assert_eq!(shown["operation"], BATCH);
    assert_eq!(shown["body"], r#"{"name":"batches/abc123"}"#);
    assert_eq!(shown["body_base64"], "eyJuYW1lIjoiYmF0Y2hlcy9hYmMxMjMifQ==");
    assert_eq!(
        shown["headers"],
        json!([["content-type", "application/json"], ["x-odd", {"base64": "/wA="}]])
    );
    let odd = api.deliver("id:2", None, b"\xff").await;
    let (_, shown) = api.get(&format!("/api/v1/events/{}", odd.event_id)).await;
    assert_eq!(
        (&shown["body"], &shown["body_base64"]),
        (&Value::Null, &json!("/w=="))
    );

    let (status, replayed) = api.post(&format!("{path}/replay"), json!({})).await;
    assert_eq!(
        (status.as_u16(), &replayed["status"]),
        (202, &json!("accepted"))
    );
    let again = replayed["event_id"].as_str().unwrap();
    assert_ne!(again, told.event_id.to_string());
    let (_, events) = api.get("/api/v1/events?limit=1").await;
    assert_eq!(events["events"][0]["id"], again);
    assert_eq!(events["events"][0]["proof"], "replay");
    let nobody = format!("/api/v1/events/{}/replay", Uuid::nil());
    assert_eq!(api.post(&nobody, json!({})).await.0, 404);
}

#[tokio::test]
async fn an_effect_is_resolved_and_sent_again_but_not_while_it_is_sent() {
    let api = Api::new().await;
    let id = api.alert().await;
    let at = |action: &str| format!("/api/v1/effects/{id}{action}");
    let (status, shown) = api.get(&at("")).await;
    assert_eq!((status.as_u16(), &shown["state"]), (200, &json!("planned")));
    let (status, dead) = api.post(&at("/resolve"), json!({"as": "dead"})).await;
    assert_eq!((status.as_u16(), &dead["state"]), (200, &json!("dead")));
    let (status, again) = api.post(&at("/retry"), json!({})).await;
    assert_eq!((status.as_u16(), &again["state"]), (202, &json!("planned")));
    let sent = api
        .world
        .base
        .store
        .begin_sends(vec![("pager".to_owned(), 9)], Duration::from_mins(1))
        .await;
    assert_eq!(sent.unwrap().len(), 1);
    assert_eq!(
        api.post(&at("/resolve"), json!({"as": "done"})).await.0,
        409
    );
    assert_eq!(api.post(&at("/retry"), json!({})).await.0, 409);
    let nobody = format!("/api/v1/effects/{}/retry", Uuid::nil());
    assert_eq!(api.post(&nobody, json!({})).await.0, 404);
}
