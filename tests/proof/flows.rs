//! The whole flow through each proxy, one of them with TLS: a delivery is accepted, its operation settles,
//! the effect arrives. What is not public is not there.

use http::Method;

use crate::proxy::Proxy;
use crate::row::{Row, Verdict};
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, silent, succeeded};

/// The rows about flows through a proxy.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "flow-caddy-tls",
        run: |_| Box::pin(flow(Proxy::CaddyTls)),
    },
    Row {
        name: "flow-haproxy",
        run: |_| Box::pin(flow(Proxy::Haproxy)),
    },
    Row {
        name: "flow-nginx",
        run: |_| Box::pin(flow(Proxy::Nginx)),
    },
];

async fn flow(proxy: Proxy) -> Verdict {
    let Some(program) = proxy.program() else {
        return Verdict::Skipped(format!("{proxy:?} is not installed"));
    };
    let stand = Stand::with(&[("server.trusted_proxies", "['127.0.0.1']")]).await;
    let home = stand.dir.path();
    let (_front, at) = proxy.start(&program, stand.public, home).await;
    let (site, client) = proxy.client(at, home).await;
    let get = |path: &str| client.get(format!("{site}{path}")).send();
    eventually("it is well, seen from outside", SOON, async || {
        let answer = get("/healthz").await.ok()?;
        (answer.status() == 200).then_some(())
    })
    .await;
    for path in [
        "/",
        "/metrics",
        "/api/v1/operations",
        "/livez",
        "/readyz",
        "/healthz/x",
    ] {
        assert_eq!(get(path).await.unwrap().status(), 404, "{path} is public");
    }
    let name = stand.gemini.start(silent(false)).unwrap();
    let mut told = Vec::new();
    for _ in 0..2 {
        // As it would be sent to us, but to the proxy.
        let mut request = stand.signed("flow", succeeded(&name)).build().unwrap();
        let outside = format!("{site}{}", request.url().path());
        *request.url_mut() = outside.parse().unwrap();
        let answer = client.execute(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let said: serde_json::Value = answer.json().await.unwrap();
        told.push(said.get("status").unwrap().as_str().unwrap().to_owned());
    }
    assert_eq!(told, ["accepted", "duplicate"]);
    stand.settled(&name).await;
    eventually("the effect arrives", SOON, async || {
        (stand.sink.about(&name).len() == 1).then_some(())
    })
    .await;
    let large = client
        .request(Method::POST, format!("{site}/hooks/gemini/whatever"))
        .body(vec![b'x'; 300 << 10]);
    let refused = large.send().await.map(|answer| answer.status().as_u16());
    assert!(!matches!(refused, Ok(200..300)), "{refused:?}");
    Verdict::Passed(format!(
        "settled and told through {}; six other paths 404",
        if site.starts_with("https") {
            "TLS"
        } else {
            "plain HTTP"
        }
    ))
}
