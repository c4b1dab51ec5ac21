//! The real process dies at each step of a rotation, and no true delivery is refused.
//!
//! A sender goes on all the while, as the provider might at worst: each delivery is signed with the
//! newest secret alone, or with all that live, whatever they are when it is sent, and is sent again
//! until it is taken. 503 and a closed door are reasons to try again; 401 is the failure.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::base::secret::Secret;
use hookledger::simulator::{DeliveryReport, Fault, FaultKind, Mode, Simulator};
use hookledger::verify::SecretFile;
use hookledger::verify::secret_file::{Kept, Stage};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::process::eventually;
use crate::support::stand::{API_KEY, PATH_TOKEN, SOON, Stand, job};

/// Longest from a start to a proven secret: two steps of the loop, 15 s apart.
const PROVEN: Duration = Duration::from_secs(60);

struct Scene {
    stand: Stand,
    webhook: String,
    file: SecretFile,
    sender: Sender,
}

impl Scene {
    /// A registered webhook whose secret is in the file, and a service that looks after it.
    async fn up() -> Self {
        let mut stand = Stand::with(&[("sources.gemini.shared_header", "false")]).await;
        stand.kill().await;
        let url = format!("http://{}/hooks/gemini/{PATH_TOKEN}", stand.public);
        let made: Value = stand
            .http
            .post(format!("{}/v1beta/webhooks", stand.base))
            .header("x-goog-api-key", API_KEY)
            .json(&json!({"name": "w", "uri": url, "subscribed_events": ["batch.succeeded"]}))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let webhook = made["id"].as_str().unwrap().to_owned();
        let secret = Secret::new(made["new_signing_secret"].as_str().unwrap());
        let at = |name: &str| stand.dir.path().join(name);
        let file = SecretFile::new(at("secrets.json"));
        let now = SystemClock::new().now();
        file.update(|kept| kept.add(secret, &webhook, now)).unwrap();
        let config = std::fs::read_to_string(at("config.toml")).unwrap();
        let ours = format!(
            "subscription.enabled = true\nsubscription.webhook_id = '{webhook}'\n\
             subscription.uri = '{url}'\nsubscription.events = ['batch.succeeded']\n\
             subscription.secrets_file = 'secrets.json'\n"
        );
        std::fs::write(at("config.toml"), ours + &config).unwrap();
        stand.start().await;
        let sender = Sender::start(&stand, &webhook, url);
        sender.more().await;
        Self {
            stand,
            webhook,
            file,
            sender,
        }
    }

    fn kept(&self) -> Kept {
        self.file.load().unwrap()
    }

    fn stage(&self) -> Option<Stage> {
        self.kept().rotation.map(|open| open.stage)
    }

    fn living(&self) -> usize {
        self.stand.gemini.webhook_secrets(&self.webhook).len()
    }

    fn fault(&self, fault: FaultKind, on: &str) {
        let mut fault = Fault::once(fault).times(0).on(on);
        fault.ms = Some(120_000);
        self.stand.gemini.fault(fault);
    }

    /// `POST /subscription/rotate`: status and body.
    async fn rotate(&self) -> (u16, Value) {
        let request = self.stand.admin(Method::POST, "/subscription/rotate");
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    fn asked(&self, what: &str) -> usize {
        let all = self.stand.gemini.requests();
        all.iter().filter(|r| r.path.ends_with(what)).count()
    }

    /// A job of the provider's, whose ending the registered webhook tells.
    fn told(&self) {
        self.stand.gemini.start(job(false, Mode::Once)).unwrap();
    }

    /// Dies, misses a few events, comes back to a provider that works, and ends the rotation.
    async fn die_and_end_it(mut self) {
        self.told();
        self.stand.kill().await;
        self.told();
        self.stand.gemini.clear_faults();
        self.stand.start().await;
        self.sender.pause(false);
        self.ends().await;
    }

    async fn ends(self) {
        self.told();
        eventually("the rotation ends", PROVEN, async || {
            self.stage().is_none().then_some(())
        })
        .await;
        self.sender.more().await;
        let kept = self.kept();
        let texts: Vec<_> = kept.secrets.iter().map(|k| k.secret.expose()).collect();
        let living = self.stand.gemini.webhook_secrets(&self.webhook);
        assert_eq!(kept.secrets.len(), 2, "the first and the newest");
        assert_eq!(texts.last(), living.last().map(Secret::expose).as_ref());
        assert_eq!(texts.first(), living.first().map(Secret::expose).as_ref());
        assert!(kept.secrets[0].not_after.is_some() && kept.secrets[1].not_after.is_none());
        eventually("every event of the provider is taken", PROVEN, async || {
            let all = self.stand.gemini.deliveries();
            // A ping is sent once: one that was on its way when the process died is answered by nobody,
            // and the next step sends another.
            let events =
                |d: &&DeliveryReport| d.webhook.is_some() && d.event_type != "webhook.ping";
            all.iter()
                .filter(events)
                .all(|d| d.status == Some(200))
                .then_some(())
        })
        .await;
        let answers = self.sender.stop().await;
        assert!(
            answers.iter().all(|a| [200, 503].contains(a)),
            "{answers:?}"
        );
        let log = std::fs::read_to_string(self.stand.dir.path().join("service.log")).unwrap();
        let refused = log.lines().find(|line| line.contains("\"delivery refused"));
        assert_eq!(refused, None);
    }
}

/// What goes on delivering.
struct Sender {
    taken: Arc<AtomicUsize>,
    paused: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<u16>>,
}

impl Sender {
    #[expect(clippy::disallowed_methods, reason = "a sender outside the service")]
    fn start(stand: &Stand, webhook: &str, url: String) -> Self {
        let taken = Arc::new(AtomicUsize::new(0));
        let flag = || Arc::new(AtomicBool::new(false));
        let (paused, stop) = (flag(), flag());
        let (gemini, webhook) = (stand.gemini.clone(), webhook.to_owned());
        let http = stand.http.clone();
        let (count, pause, end) = (taken.clone(), paused.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let (clock, mut answers, mut number) = (SystemClock::new(), Vec::new(), 0);
            while !end.load(Ordering::Relaxed) {
                clock.sleep(Duration::from_millis(20)).await;
                if pause.load(Ordering::Relaxed) {
                    continue;
                }
                let answer = send(&http, &url, &gemini, &webhook, number).await;
                answers.extend(answer);
                if answer == Some(200) {
                    number += 1;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            answers
        });
        Self {
            taken,
            paused,
            stop,
            task,
        }
    }

    fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    /// Waits until a few more were taken, of both ways to sign.
    async fn more(&self) {
        let end = self.taken.load(Ordering::Relaxed) + 4;
        let there = async || (self.taken.load(Ordering::Relaxed) >= end).then_some(());
        eventually("deliveries are taken", SOON + PROVEN, there).await;
    }

    async fn stop(self) -> Vec<u16> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// The answer, or nothing when nobody was there.
async fn send(
    http: &reqwest::Client,
    url: &str,
    gemini: &Simulator,
    webhook: &str,
    number: usize,
) -> Option<u16> {
    let (id, body) = (
        format!("mine_{number}"),
        json!({"type": "ping"}).to_string(),
    );
    let now = SystemClock::new().now().as_seconds();
    let living = gemini.webhook_secrets(webhook);
    let from = if number.is_multiple_of(2) {
        living.len() - 1
    } else {
        0
    };
    let sign = |secret: &Secret| {
        let key = standardwebhooks::Webhook::new(secret.expose()).unwrap();
        key.sign(&id, now, body.as_bytes()).unwrap()
    };
    let signatures: Vec<String> = living[from..].iter().map(sign).collect();
    let request = http
        .post(url)
        .header("webhook-id", &id)
        .header("webhook-timestamp", now)
        .header("webhook-signature", signatures.join(" "))
        .body(body);
    Some(request.send().await.ok()?.status().as_u16())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_before_the_provider_has_rotated_refuses_nothing() {
    let scene = Scene::up().await;
    scene.fault(FaultKind::Unavailable, "rotateSigningSecret");
    let (status, body) = scene.rotate().await;
    assert_eq!(status, 503, "{body}");
    assert_eq!((scene.stage(), scene.living()), (Some(Stage::Rotating), 1));
    scene.die_and_end_it().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_the_provider_s_act_and_its_answer_refuses_nothing() {
    let scene = Scene::up().await;
    scene.fault(FaultKind::Hang, "rotateSigningSecret");
    let acted = eventually("the provider acts", SOON, async || {
        (scene.living() == 2).then_some(())
    });
    // The answer never comes: the process is gone before.
    tokio::select! {
        answer = scene.rotate() => panic!("{answer:?}"),
        () = acted => {}
    }
    assert_eq!(scene.stage(), Some(Stage::Rotating));
    scene.die_and_end_it().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_after_the_new_secret_is_stored_refuses_nothing() {
    let scene = Scene::up().await;
    // The admin route, all of it.
    let (status, body) = scene.rotate().await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["webhook_id"], *scene.webhook);
    assert_eq!(body["stage"], "proving");
    assert_eq!(body["secret_stored_in"], "secrets.json");
    assert_eq!((scene.stage(), scene.living()), (Some(Stage::Proving), 2));
    let (status, body) = scene.rotate().await;
    assert_eq!((status, &body["code"]), (409, &json!("conflict")));
    assert_eq!(scene.asked(":rotateSigningSecret"), 1);
    scene.die_and_end_it().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_while_pinging_refuses_nothing() {
    let mut scene = Scene::up().await;
    scene.sender.pause(true);
    // A ping before the kill would be told again after it, and prove the secret before the step does.
    scene.fault(FaultKind::Unavailable, ":ping");
    assert_eq!(scene.rotate().await.0, 200);
    // What was proven is known to nobody after a start, so the first step pings.
    scene.stand.kill().await;
    scene.stand.gemini.clear_faults();
    scene.fault(FaultKind::Hang, ":ping");
    let before = scene.asked(":ping");
    scene.stand.start().await;
    eventually("the service pings", PROVEN, async || {
        (scene.asked(":ping") > before).then_some(())
    })
    .await;
    assert_eq!(scene.stage(), Some(Stage::Proving));
    scene.die_and_end_it().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_the_proof_and_the_end_of_the_old_secret_refuses_nothing() {
    let mut scene = Scene::up().await;
    assert_eq!(scene.rotate().await.0, 200);
    eventually("the new secret is proven", PROVEN, async || {
        scene.stage().is_none().then_some(())
    })
    .await;
    scene.told();
    scene.stand.kill().await;
    scene.told();
    scene.stand.start().await;
    scene.ends().await;
}
