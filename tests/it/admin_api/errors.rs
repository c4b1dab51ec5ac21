//! Who is refused, and that every refusal is a document that says why.

use super::*;

fn without(request: Request<Body>, header: &str) -> Request<Body> {
    let mut request = request;
    request.headers_mut().remove(header);
    request
}

async fn problem(api: &Api, request: Request<Body>) -> (u16, String) {
    let what = format!("{} {}", request.method(), request.uri());
    let response = api.send(request).await;
    let kind = response.headers().get("content-type").cloned();
    assert_eq!(kind.unwrap(), "application/problem+json", "{what}");
    assert_eq!(response.headers()["cache-control"], "no-store", "{what}");
    assert_eq!(
        response.headers()["x-content-type-options"],
        "nosniff",
        "{what}"
    );
    let (status, body) = read(response).await;
    assert_eq!(body["status"], status.as_u16(), "{what}");
    assert!(body["code"].is_string(), "{what}");
    (status.as_u16(), body["detail"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_path_of_the_api_asks_for_the_token_first() {
    let api = Api::new().await;
    let paths = [
        (Method::GET, "/api/v1/operations"),
        (Method::POST, "/api/v1/operations"),
        (Method::DELETE, "/api/v1/operations"),
        (Method::GET, "/api/v1/operations/batches/a"),
        (Method::POST, "/api/v1/queue/retry"),
        (Method::GET, "/api/v1/nothing/here"),
    ];
    for (method, path) in paths {
        let bare = without(request(method.clone(), path, None), "authorization");
        let response = api.send(bare).await;
        assert_eq!(response.status(), 401, "{method} {path}");
        assert!(
            response.headers()["www-authenticate"]
                .to_str()
                .unwrap()
                .starts_with("Bearer")
        );
        for wrong in [
            "Bearer test-admin-token-0123456789abcdefgi",
            "Basic x",
            "Bearer ",
        ] {
            let mut wrongly = request(method.clone(), path, None);
            wrongly
                .headers_mut()
                .insert("authorization", wrong.parse().unwrap());
            let (status, detail) = problem(&api, wrongly).await;
            assert_eq!(status, 401, "{method} {path} {wrong}");
            assert!(detail.contains("HOOKLEDGER_ADMIN_TOKEN"), "{detail}");
        }
        let mut twice = request(method.clone(), path, None);
        let again = twice.headers()["authorization"].clone();
        twice.headers_mut().append("authorization", again);
        assert_eq!(problem(&api, twice).await.0, 401, "{method} {path} twice");
    }
}

#[tokio::test]
async fn without_a_configured_token_the_api_refuses_and_says_what_to_set() {
    let api = Api::with("").await;
    let (status, detail) = problem(&api, request(Method::GET, "/api/v1/operations", None)).await;
    assert_eq!(status, 401);
    assert!(detail.contains("admin.token") && detail.contains("HOOKLEDGER_ADMIN_TOKEN"));
    let (status, _) = read(api.send(request(Method::GET, "/healthz", None)).await).await;
    assert_eq!(status, 200, "health asks for no token");
}

#[tokio::test]
async fn unknown_paths_methods_and_media_types_are_documents() {
    let api = Api::new().await;
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/operations/",
        "/api/v1/x",
    ] {
        assert_eq!(
            problem(&api, request(Method::GET, path, None)).await.0,
            404,
            "{path}"
        );
    }
    for (method, path) in [
        (Method::DELETE, "/api/v1/operations"),
        (Method::PUT, "/api/v1/operations/batches/a"),
        (Method::GET, "/api/v1/queue/retry"),
        (Method::GET, "/api/v1/reservations"),
        (Method::POST, "/healthz"),
    ] {
        let response = api.send(request(method.clone(), path, None)).await;
        assert!(response.headers().contains_key("allow"), "{method} {path}");
        let answer = problem(&api, request(method.clone(), path, None)).await;
        assert_eq!(answer.0, 405, "{method} {path}");
    }
    for kind in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
    ] {
        let body = json!({"name": "batches/a", "job_kind": "k"});
        let mut form = request(Method::POST, "/api/v1/operations", Some(body));
        form.headers_mut().remove("content-type");
        if let Some(kind) = kind {
            form.headers_mut()
                .insert("content-type", kind.parse().unwrap());
        }
        let (status, detail) = problem(&api, form).await;
        assert_eq!(status, 415);
        assert!(detail.contains("application/json"), "{detail}");
    }
}

#[tokio::test]
async fn a_bad_body_is_refused_by_the_name_of_its_field() {
    let api = Api::new().await;
    let wide = "x".repeat(64 * 1024);
    let post = |body: Value| request(Method::POST, "/api/v1/operations", Some(body));
    for (body, names) in [
        (json!({}), "name"),
        (json!({"name": "batches/a"}), "job_kind"),
        (json!({"name": 7, "job_kind": "k"}), "string"),
        (
            json!({"name": "../x", "job_kind": "k"}),
            "name: not an operation name",
        ),
        (
            json!({"name": "batches/a", "job_kind": ".k"}),
            "job_kind must be",
        ),
        (
            json!({"name": "batches/a", "job_kind": "unregistered"}),
            "job_kind",
        ),
        (
            json!({"name": "batches/a", "job_kind": "k", "jobkind": 1}),
            "unknown field `jobkind`",
        ),
        (
            json!({"name": "batches/a", "job_kind": "k", "user_metadata": [1]}),
            "user_metadata",
        ),
        (
            json!({"name": "batches/a", "job_kind": "k", "user_metadata": {"a": wide}}),
            "65536",
        ),
        (json!(["batches/a", "k"]), "object"),
    ] {
        let (status, detail) = problem(&api, post(body.clone())).await;
        assert_eq!(status, 400, "{detail}");
        assert!(detail.contains(names), "{names}: {detail}");
    }
    let huge = json!({"name": "batches/a", "job_kind": "k".repeat(1024 * 1024)});
    assert_eq!(problem(&api, post(huge)).await.0, 413);
    for cut in [
        "{",
        "nonsense",
        "{\"name\":\"batches/a\",\"name\":\"batches/b\"}",
    ] {
        let mut bad = post(json!({}));
        *bad.body_mut() = Body::from(cut);
        assert_eq!(problem(&api, bad).await.0, 400, "{cut}");
    }
    let own = json!({"job_kind": "k", "user_metadata": {"hookledger_id": "mine"}});
    let (status, detail) = problem(
        &api,
        request(Method::POST, "/api/v1/reservations", Some(own)),
    )
    .await;
    assert!(
        status == 400 && detail.contains("hookledger_id"),
        "{detail}"
    );
    let (_, page) = api.get("/api/v1/operations").await;
    assert_eq!(page["operations"], json!([]), "nothing of it was stored");
}

#[tokio::test]
async fn a_bad_query_is_refused_with_the_legal_words() {
    let api = Api::new().await;
    for (path, names) in [
        (
            "/api/v1/operations?state=done",
            "state must be one of reserved, pending, succeeded",
        ),
        ("/api/v1/queue?state=pending", "ready, leased, done, dead"),
        ("/api/v1/effects?state=failed", "planned, sending"),
        (
            "/api/v1/operations?limit=0",
            "limit must be a number from 1 to 500",
        ),
        ("/api/v1/operations?limit=501", "limit"),
        ("/api/v1/operations?limit=many", "limit"),
        ("/api/v1/operations?cursor=zzz", "cursor"),
        ("/api/v1/queue?cursor=zzz", "cursor"),
        (
            "/api/v1/operations?status=pending",
            "unknown field `status`",
        ),
        (
            "/api/v1/operations?state=pending&state=failed",
            "duplicate field",
        ),
        ("/api/v1/events?operation=a%20b", "operation"),
        ("/api/v1/events/7", "UUID"),
        ("/api/v1/effects/7", "UUID"),
        ("/api/v1/operations/batches", "not an operation name"),
        ("/api/v1/operations/%FF", "UTF-8"),
    ] {
        let (status, detail) = problem(&api, request(Method::GET, path, None)).await;
        assert_eq!(status, 400, "{path}");
        assert!(detail.contains(names), "{path}: {detail}");
    }
}

#[tokio::test]
async fn a_store_that_takes_no_writes_is_503_with_retry_after_and_reads_go_on() {
    let api = Api::new().await;
    api.world.base.group.drain(Duration::from_secs(5)).await;
    let body = json!({"name": "batches/a", "job_kind": "k"});
    let response = api
        .send(request(Method::POST, "/api/v1/operations", Some(body)))
        .await;
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(api.get("/api/v1/operations").await.0, 200);
}
