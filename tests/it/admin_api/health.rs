//! Health on both listeners, and the metrics page.

use super::*;

impl Api {
    async fn public(&self, path: &str) -> (StatusCode, Value) {
        let asked = self
            .public
            .clone()
            .oneshot(request(Method::GET, path, None));
        read(asked.await.unwrap()).await
    }

    fn tick(&self) {
        self.world.base.clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_sound_service_says_so_and_only_the_operator_sees_more() {
    let api = Api::new().await;
    for (path, word) in [
        ("/livez", "alive"),
        ("/readyz", "ready"),
        ("/healthz", "ok"),
    ] {
        assert_eq!(
            api.public(path).await,
            (StatusCode::OK, json!({"status": word}))
        );
        let (status, detailed) = api.get(path).await;
        assert_eq!((status.as_u16(), &detailed["status"]), (200, &json!(word)));
    }
    let (_, ready) = api.get("/readyz").await;
    assert_eq!(
        (&ready["writer"], &ready["reader"]),
        (&json!("ok"), &json!("ok"))
    );
    let (_, whole) = api.get("/healthz").await;
    assert!(whole["disk_free_bytes"].as_u64().unwrap() > 0);
    assert_eq!(whole["oldest_due_age_ms"], Value::Null);
    assert_eq!(whole["alerts_open"], 0);
    assert_eq!(whole["fetching_paused"], false);
    let unknown = api.public("/api/v1/operations").await;
    assert_eq!(unknown.0, 404, "the API is not on the public listener");
}

#[tokio::test]
async fn probes_do_not_write_more_than_once_a_second() {
    let api = Api::new().await;
    api.public("/readyz").await;
    let (before, _) = api.world.base.store.commits();
    for _ in 0..20 {
        api.public("/readyz").await;
        api.get("/healthz").await;
    }
    assert_eq!(api.world.base.store.commits().0, before);
    api.tick();
    api.public("/readyz").await;
    assert_eq!(api.world.base.store.commits().0, before + 1);
}

#[tokio::test]
async fn a_writer_that_cannot_commit_is_503_and_readers_are_told_apart() {
    let api = Api::new().await;
    api.world.base.group.drain(Duration::from_secs(5)).await;
    for path in ["/readyz", "/healthz"] {
        assert_eq!(api.public(path).await.0, 503, "{path}");
    }
    assert_eq!(api.public("/livez").await.0, 200);
    let (status, whole) = api.get("/healthz").await;
    assert_eq!(
        (status.as_u16(), &whole["status"]),
        (503, &json!("failing"))
    );
    assert_eq!(
        (&whole["writer"], &whole["reader"]),
        (&json!("busy"), &json!("ok"))
    );
    assert_eq!(whole["reasons"], json!(["the store does not commit"]));
}

#[tokio::test]
async fn a_full_disk_is_503() {
    let toml = open()
        + "[store]
min_free_disk = \"1000000TiB\"
";
    let api = Api::with(&toml).await;
    assert_eq!(
        api.public("/readyz").await,
        (
            StatusCode::SERVICE_UNAVAILABLE,
            json!({"status": "not_ready"})
        )
    );
    let (status, whole) = api.get("/healthz").await;
    assert_eq!(status, 503);
    assert!(
        whole["reasons"][0]
            .as_str()
            .unwrap()
            .contains("min_free_disk")
    );
}

#[tokio::test]
async fn a_loop_is_silent_past_its_own_bound_and_then_it_is_503() {
    let api = Api::new().await;
    for name in ["slow", "worker"] {
        let stop = api.loops.clone();
        api.loops.spawn_loop(name, move |_heart| {
            let stop = stop.clone();
            async move { stop.stopping().await }
        });
    }
    let worker = json!({"name": "worker", "age_ms": 0, "bound_ms": 120_000, "restarts": 0});
    let (_, whole) = api.get("/healthz").await;
    assert_eq!(whole["loops"][1], worker);
    assert_eq!(whole["loops"][0]["bound_ms"], 900_000);
    api.world.base.clock.advance(Duration::from_mins(2));
    assert_eq!(api.public("/healthz").await.0, 200);
    api.tick();
    let (status, whole) = api.get("/healthz").await;
    assert_eq!(status, 503);
    assert_eq!(
        whole["reasons"],
        json!(["the loop worker has been silent for too long"])
    );
    assert_eq!(
        api.public("/readyz").await.0,
        200,
        "deliveries are still taken"
    );
    api.loops.begin();
    assert_eq!(api.public("/healthz").await.0, 200, "silent by right");
}

#[tokio::test]
async fn what_no_restart_mends_is_degraded_and_200() {
    let api = Api::new().await;
    api.paused.store(true, Ordering::Relaxed);
    let degraded = (StatusCode::OK, json!({"status": "degraded"}));
    assert_eq!(api.public("/healthz").await, degraded);
    api.paused.store(false, Ordering::Relaxed);
    assert_eq!(api.public("/healthz").await.1["status"], "ok");

    api.deliver("id:1", Some("batches/a"), b"{}").await;
    api.world.base.clock.advance(Duration::from_mins(10));
    let (_, whole) = api.get("/healthz").await;
    assert_eq!(
        (&whole["status"], &whole["oldest_due_age_ms"]),
        (&json!("ok"), &json!(600_000))
    );
    api.tick();
    assert_eq!(api.public("/healthz").await, degraded);
}

#[tokio::test]
async fn the_metrics_page_is_fresh_and_asks_for_no_token() {
    // This thread runs the whole test, so its own recorder sees what the handler counts.
    let (recorder, metrics) = Metrics::local();
    let _counting = ::metrics::set_default_local_recorder(&recorder);
    let api = Api::counting_in(metrics, &open()).await;
    for n in 0..3 {
        api.register(&format!("batches/n{n}")).await;
    }
    let plain = Request::get("/metrics").header("host", "localhost");
    let response = api.send(plain.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let body = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    let page = String::from_utf8(body.to_vec()).unwrap();
    assert!(
        page.contains("hookledger_operations{state=\"pending\"} 3\n"),
        "{page}"
    );
    assert!(page.contains("hookledger_disk_free_bytes "), "{page}");
}
