//! Restarts behind a proxy, with deliveries coming in at two hundred a second all the while; and whose
//! address counts there.
//!
//! The listening socket is kept here, as systemd keeps it. The proxies are Debian's, with the
//! configuration of `config/`.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};

use crate::proxy::Proxy;
use crate::row::{Row, Tier, Verdict};
use crate::support::outside::{self, Told};
use crate::support::process::{Service, eventually};
use crate::support::stand::{SOON, Stand, silent, succeeded};

/// The rows about deploys.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T6-deploy-caddy-term",
        run: |tier| Box::pin(deploys(Proxy::Caddy, End::Terminated, tier)),
    },
    Row {
        name: "T6-deploy-haproxy-kill",
        run: |tier| Box::pin(deploys(Proxy::Haproxy, End::Killed, tier)),
    },
    Row {
        name: "T6-deploy-caddy-kill",
        run: |tier| Box::pin(deploys(Proxy::Caddy, End::Killed, tier)),
    },
    Row {
        name: "T6-deploy-nginx-kill",
        run: |tier| Box::pin(deploys(Proxy::Nginx, End::Killed, tier)),
    },
    Row {
        name: "proxy-address-caddy",
        run: |_| Box::pin(addresses(Proxy::Caddy)),
    },
    Row {
        name: "proxy-address-haproxy",
        run: |_| Box::pin(addresses(Proxy::Haproxy)),
    },
    Row {
        name: "proxy-address-nginx",
        run: |_| Box::pin(addresses(Proxy::Nginx)),
    },
];

/// Two hundred a second.
const PACE: Duration = Duration::from_millis(5);
/// Deliveries under way at most: a machine that is too slow for the pace gets fewer.
const UNDER_WAY: usize = 400;
/// How long each process serves before it ends.
const SERVES: Duration = Duration::from_millis(1500);
/// One in so many names an operation.
const NAMES: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Terminated,
    Killed,
}

/// What the sender heard.
#[derive(Debug, Default)]
struct Heard {
    acknowledged: BTreeSet<String>,
    /// Sent, and answered with something else or not at all.
    failed: Vec<(String, String)>,
    statuses: std::collections::BTreeMap<u16, usize>,
}

async fn deploys(proxy: Proxy, end: End, tier: Tier) -> Verdict {
    let Some(program) = proxy.program() else {
        return Verdict::Skipped(format!("{proxy:?} is not installed"));
    };
    let restarts = tier.of(3, 10);
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    stand.kill().await;
    let (public, admin) = (
        TcpListener::bind(stand.public).unwrap(),
        TcpListener::bind(stand.admin).unwrap(),
    );
    let (front, at) = proxy.start(&program, stand.public, stand.dir.path()).await;
    let upstream = std::mem::replace(&mut stand.public, at);
    let mut service = stand.spawn_on(&public, &admin);
    service.ready(upstream).await;
    let (done, heard) = (AtomicBool::new(false), Arc::default());
    let clock = SystemClock::new();
    let restarting = async {
        for _ in 0..restarts {
            clock.sleep(SERVES).await;
            service = restart(service, end, &stand, &public, &admin).await;
            service.ready(upstream).await;
        }
        clock.sleep(SERVES).await;
        done.store(true, Ordering::Relaxed);
        service
    };
    let (mut names, service) = tokio::join!(send(&stand, &heard, &done), restarting);
    let mut heard = std::mem::take(&mut *heard.lock().unwrap());
    let failures = heard.failed.len();
    if end == End::Terminated || proxy == Proxy::Haproxy {
        let log = service.logged();
        let why: Vec<_> = log.lines().filter(|l| l.contains("not taken")).collect();
        assert_eq!(failures, 0, "answers: {:?}; {why:?}", heard.statuses);
    }
    // What was not acknowledged is sent again, as the provider does.
    for (id, body) in std::mem::take(&mut heard.failed) {
        assert_eq!(stand.deliver(&id, body).await.0, 200);
        heard.acknowledged.insert(id);
    }
    let told = Told {
        stored: heard.acknowledged,
        settled: std::mem::take(&mut names),
        ..Told::default()
    };
    eventually("all that was named settles", SOON, async || {
        outside::is_drained(&stand.db()).await.then_some(())
    })
    .await;
    outside::check_drained(&stand.db(), &told, &stand.sink).await;
    drop(front);
    service.kill().await;
    Verdict::Passed(format!(
        "{restarts} restarts, {} sent, answers by status {:?} (0: none), {failures} sent again, \
         nothing acknowledged is lost",
        told.stored.len(),
        heard.statuses,
    ))
}

/// Behind the shipped configuration `allow_from` judges the client, whatever it says of itself.
async fn addresses(proxy: Proxy) -> Verdict {
    let Some(program) = proxy.program() else {
        return Verdict::Skipped(format!("{proxy:?} is not installed"));
    };
    let mut stand = Stand::with(&[
        ("server.trusted_proxies", "['127.0.0.1']"),
        ("sources.gemini.allow_from", "['127.0.0.2', '203.0.113.7']"),
    ])
    .await;
    let (_front, at) = proxy.start(&program, stand.public, stand.dir.path()).await;
    stand.public = at;
    let mut told = Vec::new();
    for (from, claim) in [
        (2, None),
        (3, None),
        (3, Some("127.0.0.2")),
        (3, Some("203.0.113.7")),
    ] {
        stand.http = reqwest::Client::builder()
            .no_proxy()
            .local_address(std::net::IpAddr::from([127, 0, 0, from]))
            .build()
            .unwrap();
        let mut delivery = stand.signed(&format!("a{}", told.len()), "{\"type\":\"webhook.ping\"}");
        if let Some(claim) = claim {
            delivery = delivery.header("x-forwarded-for", claim);
        }
        told.push(delivery.send().await.unwrap().status().as_u16());
    }
    assert_eq!(told, [200, 404, 404, 404], "the client's own word counts");
    Verdict::Passed(format!(
        "one delivery from a listed address accepted, {} from elsewhere refused, two of them under a \
         listed address of their own telling",
        told.len() - 1
    ))
}

async fn restart(
    mut service: Service,
    end: End,
    stand: &Stand,
    public: &TcpListener,
    admin: &TcpListener,
) -> Service {
    match end {
        End::Killed => service.kill().await,
        End::Terminated => {
            service.terminate();
            assert!(service.ended(SOON).await.success(), "{}", service.logged());
        }
    }
    stand.spawn_on(public, admin)
}

/// Sends at its pace, whatever becomes of what was sent before; gives the operations it named.
async fn send(stand: &Stand, heard: &Arc<Mutex<Heard>>, done: &AtomicBool) -> BTreeSet<String> {
    let clock = SystemClock::new();
    let (mut names, mut under_way) = (BTreeSet::new(), tokio::task::JoinSet::new());
    for n in 0_usize.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let due = PACE.saturating_mul(u32::try_from(n).unwrap());
        clock.sleep(due.saturating_sub(clock.monotonic())).await;
        let id = format!("d{n}");
        let body = if n % NAMES == 0 {
            let name = stand.gemini.start(silent(false)).unwrap();
            let body = succeeded(&name);
            names.insert(name);
            body
        } else {
            "{\"type\":\"webhook.ping\"}".to_owned()
        };
        while under_way.len() >= UNDER_WAY {
            under_way.join_next().await;
        }
        let (sent, heard) = (stand.deliver_owned(&id, body.clone()), Arc::clone(heard));
        under_way.spawn(async move {
            let answer = sent.await;
            let mut heard = heard.lock().unwrap();
            *heard.statuses.entry(answer.unwrap_or(0)).or_default() += 1;
            if answer == Ok(200) {
                heard.acknowledged.insert(id);
            } else {
                heard.failed.push((id, body));
            }
        });
    }
    under_way.join_all().await;
    names
}
