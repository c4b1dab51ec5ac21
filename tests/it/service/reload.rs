//! SIGHUP: secrets are read again, and nobody at the door notices.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hookledger::base::clock::{Clock as _, SystemClock};
use http::Method;
use serde_json::json;

use crate::support::process::{Service, eventually};
use crate::support::stand::{ADMIN_TOKEN, API_KEY, PATH_TOKEN, SHARED, SIGNING, SOON, Stand};

const NEW: &str = "whsec_Y2FuYXJ5LXRoZS1uZXctc2VjcmV0LW9mLTMyLWJ5dGU=";
const KEPT: &str = "whsec_Y2FuYXJ5LXRoZS1rZXB0LXNlY3JldC1vZi0zMi1ieXQ=";
const NEW_PATH: &str = "canary-another-path-token-0123456789";
const NEW_ADMIN: &str = "canary-another-admin-token-024689bdf";

/// The service, with each secret in a file of its own.
struct Scene {
    stand: Stand,
    service: Service,
}

impl Scene {
    async fn up() -> Self {
        let mut stand = Stand::up().await;
        stand.kill().await;
        let at = |name: &str| stand.dir.path().join(name);
        let mut environment = vec![("SINK_SECRET".to_owned(), SIGNING.to_owned())];
        for (variable, text) in [
            ("HOOK_PATH_TOKEN", PATH_TOKEN),
            ("HOOK_SHARED_SECRET", SHARED),
            ("HOOKLEDGER_ADMIN_TOKEN", ADMIN_TOKEN),
            ("GEMINI_API_KEY", API_KEY),
            ("GEMINI_WEBHOOK_SECRETS", SIGNING),
        ] {
            write(at(variable), text);
            let path = at(variable).to_str().unwrap().to_owned();
            environment.push((format!("{variable}_FILE"), path));
        }
        let kept = at("kept.json").to_str().unwrap().to_owned();
        environment.push(("HOOKLEDGER__SUBSCRIPTION__SECRETS_FILE".to_owned(), kept));
        let pairs: Vec<_> = environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut service = Service::spawn(&at("config.toml"), &at("reload.log"), &pairs);
        service.ready(stand.public).await;
        Self { stand, service }
    }

    fn write(&self, name: &str, text: &str) {
        write(self.stand.dir.path().join(name), text);
    }

    /// SIGHUP, and waits for one more line that says this.
    async fn reload(&self, line: &str) {
        let count = || self.service.logged().matches(line).count();
        let before = count();
        self.service.hang_up();
        eventually(line, SOON, async || (count() > before).then_some(())).await;
    }

    async fn status(&self, secret: &str, token: &str) -> u16 {
        deliver(&self.stand.http, &self.stand, secret, token, "once").await
    }

    async fn admin(&self, token: &str) -> u16 {
        let request = self.stand.admin(Method::GET, "/alerts");
        let mut request = request.build().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let answer = self.stand.http.execute(request).await.unwrap();
        answer.status().as_u16()
    }
}

fn write(path: PathBuf, text: &str) {
    // Whole or not at all: the service may read it at any moment.
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, text).unwrap();
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

/// A delivery that only its signature proves.
async fn deliver(
    http: &reqwest::Client,
    stand: &Stand,
    secret: &str,
    token: &str,
    id: &str,
) -> u16 {
    let url = format!("http://{}/hooks/gemini/{token}", stand.public);
    send(http, &url, secret, id).await
}

async fn send(http: &reqwest::Client, url: &str, secret: &str, id: &str) -> u16 {
    let now = SystemClock::new().now().as_seconds();
    let hook = standardwebhooks::Webhook::new(secret).unwrap();
    let body = json!({"type": "ping"}).to_string();
    let request = http
        .post(url)
        .header("webhook-id", id)
        .header("webhook-timestamp", now)
        .header(
            "webhook-signature",
            hook.sign(id, now, body.as_bytes()).unwrap(),
        )
        .body(body);
    request.send().await.unwrap().status().as_u16()
}

const SENDERS: usize = 4;

/// Senders that go on until they are told to stop, with whatever secret is the right one by then.
struct Stream {
    secret: Arc<Mutex<&'static str>>,
    sent: Arc<[AtomicUsize; SENDERS]>,
    stop: Arc<AtomicBool>,
    senders: Vec<tokio::task::JoinHandle<Vec<u16>>>,
}

impl Stream {
    #[expect(clippy::disallowed_methods, reason = "a sender outside the service")]
    fn start(stand: &Stand) -> Self {
        let secret = Arc::new(Mutex::new(SIGNING));
        let (sent, stop) = (
            Arc::new([const { AtomicUsize::new(0) }; SENDERS]),
            Arc::new(AtomicBool::new(false)),
        );
        let senders = (0..SENDERS).map(|sender| {
            let (secret, sent, stop) = (secret.clone(), sent.clone(), stop.clone());
            let http = stand.http.clone();
            let url = format!("http://{}/hooks/gemini/{PATH_TOKEN}", stand.public);
            tokio::spawn(async move {
                let mut answers = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let secret = *secret.lock().unwrap();
                    let id = format!("{sender}-{}", answers.len());
                    answers.push(send(&http, &url, secret, &id).await);
                    sent[sender].fetch_add(1, Ordering::Relaxed);
                }
                answers
            })
        });
        let senders = senders.collect();
        Self {
            secret,
            sent,
            stop,
            senders,
        }
    }

    /// Waits until each sender has so many more answers: what it had in hand before has ended.
    async fn more(&self, count: usize) {
        let now = || self.sent.each_ref().map(|n| n.load(Ordering::Relaxed));
        let before = now();
        let there = async || {
            let mut pairs = now().into_iter().zip(before);
            pairs
                .all(|(now, before)| now >= before + count)
                .then_some(())
        };
        eventually("more deliveries", SOON, there).await;
    }

    async fn stop(self) -> Vec<u16> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for sender in self.senders {
            all.extend(sender.await.unwrap());
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_delivery_is_refused_while_secrets_are_exchanged() {
    let scene = Scene::up().await;
    let read = "read the secrets again: sources.gemini.signing_secrets\"";
    let stream = Stream::start(&scene.stand);
    stream.more(5).await;
    scene.write("GEMINI_WEBHOOK_SECRETS", &format!("{SIGNING}\n{NEW}\n"));
    scene.reload(read).await;
    *stream.secret.lock().unwrap() = NEW;
    stream.more(5).await;
    scene.write("GEMINI_WEBHOOK_SECRETS", NEW);
    scene.reload(read).await;
    stream.more(5).await;
    // One bad secret, and the good one beside it is not taken either.
    scene.write("GEMINI_WEBHOOK_SECRETS", "whsec_c2hvcnQ=");
    scene.write("HOOKLEDGER_ADMIN_TOKEN", "weak");
    scene.write("HOOK_PATH_TOKEN", NEW_PATH);
    scene.reload("the secrets stay as they were").await;
    let log = scene.service.logged();
    for key in [
        "sources.gemini.signing_secrets: has an entry",
        "admin.token: is only 4 bytes",
    ] {
        assert!(
            log.contains(&format!("a secret cannot be used: {key}")),
            "{key}"
        );
    }
    stream.more(5).await;
    let answers = stream.stop().await;
    assert!(
        answers.len() >= 80 && answers.iter().all(|a| *a == 200),
        "{answers:?}"
    );
    assert_eq!(
        scene.status(SIGNING, PATH_TOKEN).await,
        401,
        "the old one has ended"
    );
    assert_eq!(scene.status(NEW, NEW_PATH).await, 404, "it was refused");
    assert_eq!(scene.admin(ADMIN_TOKEN).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_secret_is_read_again_and_named() {
    let scene = Scene::up().await;
    assert_eq!(scene.status(KEPT, PATH_TOKEN).await, 401);
    let kept = json!({"version": 1, "secrets": [
        {"secret": KEPT, "webhook": "w", "since": "2026-11-30T12:00:00Z"},
    ]});
    scene.write("kept.json", &kept.to_string());
    scene.write("HOOK_PATH_TOKEN", NEW_PATH);
    scene.write("HOOK_SHARED_SECRET", NEW);
    scene.write("HOOKLEDGER_ADMIN_TOKEN", NEW_ADMIN);
    scene.write("GEMINI_API_KEY", "canary-api-key-of-another-project");
    let config = scene.stand.dir.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("worker.retry_cap = '1s'", "worker.retry_cap = '2s'");
    std::fs::write(&config, text).unwrap();
    let names = "hooks.path_token, hooks.shared_secret, gemini.api_key, admin token admin, \
                 subscription.secrets_file";
    scene
        .reload(&format!("read the secrets again: {names}\""))
        .await;
    assert!(
        scene
            .service
            .logged()
            .contains("changed, and wants a restart: worker.retry_cap\"")
    );
    assert_eq!(scene.status(KEPT, NEW_PATH).await, 200);
    assert_eq!(scene.status(KEPT, PATH_TOKEN).await, 404);
    assert_eq!(
        (scene.admin(NEW_ADMIN).await, scene.admin(ADMIN_TOKEN).await),
        (200, 401)
    );
    let url = format!("http://{}/hooks/gemini/{NEW_PATH}", scene.stand.public);
    for (shared, status) in [(NEW, 200), (SHARED, 401)] {
        let request = scene.stand.http.post(&url).header("x-hook-secret", shared);
        assert_eq!(request.body("{}").send().await.unwrap().status(), status);
    }
    scene
        .reload("read the secrets again: none has changed\"")
        .await;
    // A file of kept secrets that cannot be used keeps everything.
    let path = scene.stand.dir.path().join("kept.json");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    scene.reload("the secrets stay as they were").await;
    assert_eq!(scene.status(KEPT, NEW_PATH).await, 200);
    let log = scene.service.logged();
    let secrets = [NEW, KEPT, NEW_PATH, NEW_ADMIN, "canary-api-key"];
    assert!(secrets.iter().all(|secret| !log.contains(secret)));
}

/// `systemctl reload` is promised, and does nothing for a unit that does not say how.
#[test]
fn the_unit_sends_the_signal_that_reads_the_secrets_again() {
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/hookledger.service");
    let unit = std::fs::read_to_string(place).unwrap();
    assert!(
        unit.lines()
            .any(|line| line == "ExecReload=/bin/kill -HUP $MAINPID"),
        "{unit}"
    );
}
