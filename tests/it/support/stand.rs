//! The whole scene: a fake Gemini, a receiver of effects and the real program between them, with
//! intervals short enough to wait for.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::base::ids::RandomIds;
use hookledger::base::secret::Secret;
use hookledger::base::shutdown::Shutdown;
use hookledger::simulator::{Mode, NewJob, Simulator, SimulatorConfig};
use http::Method;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::process::{self, Service, eventually};
use super::sink::Sink;

/// Canaries: each is looked for where it must not be.
pub(crate) const PATH_TOKEN: &str = "canary-path-token-0123456789abcdef";
pub(crate) const SHARED: &str = "canary-shared-secret-fedcba9876543210";
pub(crate) const ADMIN_TOKEN: &str = "canary-admin-token-13579bdf02468ace";
pub(crate) const API_KEY: &str = "canary-api-key-97531-86420";
pub(crate) const SIGNING: &str = "whsec_Y2FuYXJ5LXNpZ25pbmctc2VjcmV0LXdpdGgtMzItYnk=";
pub(crate) const SINK_SECRET: &str = "whsec_Y2FuYXJ5LXNpbmstc2lnbmluZy1zZWNyZXQtMzItYnk=";

/// Longest that anything asked for may take to happen.
pub(crate) const SOON: Duration = Duration::from_secs(20);

const SECRETS: [(&str, &str); 6] = [
    ("HOOK_PATH_TOKEN", PATH_TOKEN),
    ("HOOK_SHARED_SECRET", SHARED),
    ("HOOKLEDGER_ADMIN_TOKEN", ADMIN_TOKEN),
    ("GEMINI_API_KEY", API_KEY),
    ("GEMINI_WEBHOOK_SECRETS", SIGNING),
    ("SINK_SECRET", SINK_SECRET),
];

pub(crate) struct Stand {
    pub(crate) gemini: Arc<Simulator>,
    pub(crate) sink: Sink,
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Where the fake Gemini is.
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
    pub(crate) service: Option<Service>,
    /// Looks through what was logged, before the directory goes.
    _logs: Logs,
    pub(crate) dir: TempDir,
    db: PathBuf,
    clock: SystemClock,
}

/// Every log of every scene, searched for every secret when the scene ends.
struct Logs(PathBuf);

impl Drop for Logs {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let files = std::fs::read_dir(&self.0).unwrap();
        for path in files.map(|file| file.unwrap().path()) {
            if path.extension().is_none_or(|end| end != "log") {
                continue;
            }
            let log = std::fs::read_to_string(&path).unwrap();
            for (name, secret) in SECRETS {
                let line = log.lines().find(|line| line.contains(secret));
                assert_eq!(line, None, "{name} is in {}", path.display());
            }
        }
    }
}

impl Stand {
    /// Everything up and ready.
    pub(crate) async fn up() -> Self {
        Self::with(&[]).await
    }

    /// The same, with these keys set over the configuration of the scene (`section.key`, TOML value).
    pub(crate) async fn with(set: &[(&str, &str)]) -> Self {
        let (public, admin) = (process::address(), process::address());
        let gemini = Simulator::new(
            SimulatorConfig {
                webhook_url: Some(
                    format!("http://{public}/hooks/gemini/{PATH_TOKEN}")
                        .parse()
                        .unwrap(),
                ),
                webhook_secret: Some(Secret::new(SIGNING)),
                shared_secret: Some(Secret::new(SHARED)),
                api_key: Some(Secret::new(API_KEY)),
                ..SimulatorConfig::default()
            },
            Arc::new(SystemClock::new()),
            Arc::new(RandomIds::from_system()),
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let tasks = Shutdown::new(Arc::new(SystemClock::new()));
        tasks.spawn("simulator", gemini.clone().serve(listener, tasks.clone()));
        let sink = Sink::start().await;
        let dir = tempfile::tempdir().unwrap();
        let config = configuration(public, admin, &base, &sink.url, set);
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        let elsewhere = set.iter().find(|(key, _)| *key == "store.path");
        let file = elsewhere.map_or("webhook.db", |(_, path)| path.trim_matches('\''));
        let mut stand = Self {
            db: dir.path().join(file),
            gemini,
            sink,
            public,
            admin,
            base,
            http: process::client(),
            service: None,
            _logs: Logs(dir.path().to_owned()),
            dir,
            clock: SystemClock::new(),
        };
        stand.start().await;
        stand
    }

    /// Starts the program again on the same file and waits until it is ready.
    pub(crate) async fn start(&mut self) {
        self.start_with(&[]).await;
    }

    /// The same, with more in its environment.
    pub(crate) async fn start_with(&mut self, more: &[(&str, &str)]) {
        let mut service = self.spawn_with("service.log", more);
        service.ready(self.public).await;
        self.service = Some(service);
    }

    /// One more process on the same file.
    pub(crate) fn spawn(&self, log: &str) -> Service {
        self.spawn_with(log, &[])
    }

    /// One more process on the same file, on sockets that the caller keeps.
    pub(crate) fn spawn_on(&self, public: &TcpListener, admin: &TcpListener) -> Service {
        let at = |name: &str| self.dir.path().join(name);
        let (config, log) = (at("config.toml"), at("service.log"));
        Service::spawn_on(public, admin, &config, &log, &SECRETS)
    }

    /// A delivery that needs nothing of this any more: the status, or that no answer was heard.
    pub(crate) fn deliver_owned(
        &self,
        id: &str,
        body: String,
    ) -> impl Future<Output = Result<u16, ()>> + Send + use<> {
        let request = self.signed(id, body);
        async move {
            let answer = request.send().await.map_err(drop)?;
            Ok(answer.status().as_u16())
        }
    }

    /// Runs one command on the same configuration, with more in its environment.
    pub(crate) async fn cli(
        &self,
        arguments: &[&str],
        more: &[(&str, &str)],
    ) -> std::process::Output {
        let environment = [&SECRETS, more].concat();
        process::command(
            &self.dir.path().join("config.toml"),
            arguments,
            &environment,
        )
        .await
    }

    /// Runs one command of the program on the same configuration, to its end.
    pub(crate) async fn command(&self, arguments: &[&str]) -> std::process::Output {
        process::command(&self.dir.path().join("config.toml"), arguments, &SECRETS).await
    }

    /// The same, with more in its environment.
    pub(crate) fn spawn_with(&self, log: &str, more: &[(&str, &str)]) -> Service {
        let at = |name: &str| self.dir.path().join(name);
        let environment = [&SECRETS, more].concat();
        Service::spawn(&at("config.toml"), &at(log), &environment)
    }

    /// The same, under another program.
    pub(crate) fn spawn_under(
        &self,
        log: &str,
        wrapper: &[&str],
        more: &[(&str, &str)],
    ) -> Service {
        let at = |name: &str| self.dir.path().join(name);
        let environment = [&SECRETS, more].concat();
        Service::spawn_under(wrapper, &at("config.toml"), &at(log), &environment)
    }

    /// Starts the program on a disk that takes no more than `kib` in one file: the write fails there, as
    /// on a full one.
    pub(crate) async fn start_limited(&mut self, kib: u32) {
        // The shell counts blocks of 512 bytes. The signal is ignored so that the write fails instead.
        let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", kib * 2);
        let mut service = self.spawn_under("limited.log", &["/bin/sh", "-c", &script, "sh"], &[]);
        service.ready(self.public).await;
        self.service = Some(service);
    }

    pub(crate) async fn kill(&mut self) {
        self.take().kill().await;
    }

    /// The running program, to be stopped by the caller.
    pub(crate) fn take(&mut self) -> Service {
        self.service.take().unwrap()
    }

    pub(crate) fn service(&mut self) -> &mut Service {
        self.service.as_mut().unwrap()
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.db.clone()
    }

    /// A request to a path of the public listener.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("http://{}{path}", self.public))
    }

    /// A request to the operator's API.
    pub(crate) fn admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("http://{}/api/v1{path}", self.admin))
            .bearer_auth(ADMIN_TOKEN)
    }

    /// A delivery with every proof.
    pub(crate) fn signed(&self, id: &str, body: impl Into<Bytes>) -> RequestBuilder {
        let body = body.into();
        let now = self.clock.now().as_seconds();
        let signature = standardwebhooks::Webhook::new(SIGNING)
            .unwrap()
            .sign(id, now, &body)
            .unwrap();
        self.request(Method::POST, &format!("/hooks/gemini/{PATH_TOKEN}"))
            .header("x-hook-secret", SHARED)
            .header("webhook-id", id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", signature)
            .body(body)
    }

    /// Sends a delivery and says what it was answered: status and word.
    pub(crate) async fn deliver(&self, id: &str, body: impl Into<Bytes>) -> (u16, String) {
        let answer = self.signed(id, body).send().await.unwrap();
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.unwrap();
        (
            status,
            body["status"].as_str().unwrap_or_default().to_owned(),
        )
    }

    pub(crate) async fn register(&self, name: &str, job_kind: &str) -> u16 {
        self.try_register(name, job_kind).await.unwrap()
    }

    /// The status, or nothing when no answer was heard.
    pub(crate) async fn try_register(&self, name: &str, job_kind: &str) -> Option<u16> {
        let body = json!({"name": name, "job_kind": job_kind});
        let request = self.admin(Method::POST, "/operations").json(&body);
        Some(request.send().await.ok()?.status().as_u16())
    }

    /// The ledger's record of an operation, as the API shows it.
    pub(crate) async fn operation(&self, name: &str) -> Option<Value> {
        let path = format!("/operations/{name}");
        let answer = self.admin(Method::GET, &path).send().await.unwrap();
        (answer.status() == 200).then_some(())?;
        answer.json().await.unwrap()
    }

    /// Waits until an operation has settled and its effect is done.
    pub(crate) async fn settled(&self, name: &str) -> Value {
        eventually(&format!("{name} settles"), SOON, async || {
            self.operation(name)
                .await
                .filter(|o| !o["settled_by"].is_null() && o["side_effect_done"] == true)
        })
        .await
    }
}

/// A body that says that `name` succeeded.
pub(crate) fn succeeded(name: &str) -> String {
    json!({"type": "batch.succeeded", "data": {"id": name}}).to_string()
}

/// A batch of which nobody tells, ended already or going on until told.
pub(crate) fn silent(manual: bool) -> NewJob {
    job(manual, Mode::Drop)
}

pub(crate) fn job(manual: bool, deliver: Mode) -> NewJob {
    let body = json!({
        "kind": "batch", "manual": manual, "complete_after_ms": 0,
        "webhook": {"deliver": deliver},
    });
    serde_json::from_value(body).unwrap()
}

fn configuration(
    public: SocketAddr,
    admin: SocketAddr,
    gemini: &str,
    sink: &str,
    set: &[(&str, &str)],
) -> String {
    let mut keys = vec![
        ("server.listen", format!("'{public}'")),
        ("server.stop_timeout", "'8s'".to_owned()),
        ("server.max_connections_per_address", "1000".to_owned()),
        ("admin.listen", format!("'{admin}'")),
        ("store.path", "'webhook.db'".to_owned()),
        ("store.min_free_disk", "'1MiB'".to_owned()),
        ("store.low_free_disk", "'1MiB'".to_owned()),
        ("gemini.base_url", format!("'{gemini}'")),
        ("gemini.timeout", "'20s'".to_owned()),
        ("worker.retry_first", "'100ms'".to_owned()),
        ("worker.retry_cap", "'1s'".to_owned()),
        ("reconcile.interval", "'100ms'".to_owned()),
        ("reconcile.grace", "'300ms'".to_owned()),
        ("reconcile.check_min", "'100ms'".to_owned()),
        ("reconcile.check_max", "'500ms'".to_owned()),
        ("delivery.retry_first", "'100ms'".to_owned()),
        ("delivery.retry_cap", "'1s'".to_owned()),
        ("log.filter", "'debug,hookledger=trace'".to_owned()),
        ("log.format", "'json'".to_owned()),
    ];
    for (key, value) in set {
        keys.retain(|(known, _)| known != key);
        keys.push((key, (*value).to_owned()));
    }
    let mut text = String::new();
    for (key, value) in keys {
        writeln!(text, "{key} = {value}").unwrap();
    }
    let on = "['succeeded', 'failed', 'cancelled', 'expired', 'filtered']";
    writeln!(
        text,
        "[[effects]]\nname = 'notify'\nkind = 'http'\nurl = '{sink}'\nallow_private = true\n\
         secret_env = 'SINK_SECRET'\non = {on}\n"
    )
    .unwrap();
    text
}
