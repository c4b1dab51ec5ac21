//! Everything an alert may be about, on one clock that the test moves, and two real sinks that are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hookledger::base::shutdown::Shutdown;
use hookledger::domain::effect::EffectState;
use hookledger::reconcile::watch::{Watch, Watched};
use hookledger::simulator::WebhookState;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::subscription::scene::Scene;
use crate::support::sink::{Got, Sink};
use crate::support::world::succeeded;

pub(super) struct Stage {
    pub(super) scene: Scene,
    pub(super) watch: Watch,
    /// Free bytes of the disk.
    pub(super) free: Arc<AtomicU64>,
    /// Who wants to know of operations.
    pub(super) app: Sink,
    /// Who wants to know of alerts.
    sink: Sink,
    loops: Shutdown,
    told: Arc<Told>,
    dir: TempDir,
}

/// What the watched loop is told.
#[derive(Debug, Default)]
struct Told {
    turn: Notify,
    die: AtomicBool,
}

impl Stage {
    pub(super) async fn new(keys: &str) -> Self {
        let (sink, app) = (Sink::start().await, Sink::start().await);
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("alerts");
        let rest = format!(
            "[alerts]\nto = ['ops', 'program']\n\
             [[effects]]\nname = 'ops'\nkind = 'http'\nurl = '{}'\nallow_private = true\non = ['gone']\n\
             [[effects]]\nname = 'program'\nkind = 'command'\non = ['gone']\n\
             argv = ['sh', '-c', 'cat >> {log}; echo >> {log}']\n\
             [[effects]]\nname = 'app'\nkind = 'http'\nurl = '{}'\nallow_private = true\n",
            sink.url,
            app.url,
            log = log.display()
        );
        let scene = Scene::new(keys, &rest).await;
        let clock = scene.world.base.clock.clone();
        let (loops, told) = (Shutdown::new(clock), Arc::new(Told::default()));
        let of_loop = Arc::clone(&told);
        loops.spawn_loop("worker", move |heart| {
            let told = Arc::clone(&of_loop);
            async move {
                loop {
                    heart.beat();
                    told.turn.notified().await;
                    assert!(!told.die.swap(false, Ordering::Relaxed), "as planned");
                }
            }
        });
        let free = Arc::new(AtomicU64::new(1 << 40));
        let watch = watch_over(&scene, &free, &loops);
        let stage = Self {
            scene,
            watch,
            free,
            app,
            sink,
            loops,
            told,
            dir,
        };
        stage.loop_turns().await;
        stage
    }

    /// What the next process would watch with.
    pub(super) fn watch_over(&self, loops: &Shutdown) -> Watch {
        watch_over(&self.scene, &self.free, loops)
    }

    /// An alert that the process before left open.
    pub(super) async fn opened_before(&self, subject: &str) {
        let planner = Arc::clone(&self.scene.world.planner);
        let store = &self.scene.world.base.store;
        let opened = store.open_alert(subject.to_owned(), "as before".to_owned(), planner);
        opened.await.unwrap();
    }

    pub(super) fn pass(&self, by: Duration) {
        self.scene.pass(by);
    }

    pub(super) async fn send_all(&self) {
        while !self.scene.world.send().await.is_empty() {}
    }

    /// What the receiver was told about subjects that begin so.
    pub(super) fn told(&self, subject: &str) -> Vec<String> {
        let all = self.sink.all();
        about(all.iter().map(Got::json), subject)
    }

    /// What the program was told.
    pub(super) fn told_the_program(&self, subject: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("alerts"));
        let text = text.unwrap_or_default();
        let lines = text.lines().filter(|line| !line.is_empty());
        about(
            lines.map(|line| serde_json::from_str(line).unwrap()),
            subject,
        )
    }

    /// The one effect of that operation that is in that state.
    pub(super) async fn effect_in(&self, state: EffectState, operation: &str) -> Uuid {
        let operation = self.scene.world.operation(operation).await.unwrap();
        let store = &self.scene.world.base.store;
        let effects = store.effects_of(operation.id).await.unwrap();
        effects.iter().find(|e| e.state == state).unwrap().id
    }

    /// After so long an operation ends and its webhook comes; then it is old enough to be judged.
    pub(super) async fn told_by_webhook(&self, name: &str, after: Duration) {
        self.pass(after);
        self.scene.world.register(name, "nightly").await;
        self.scene.world.api.says(name, succeeded(name));
        self.scene.world.tell(&format!("told {name}"), name).await;
        self.scene.world.work().await;
        self.pass(Duration::from_mins(16));
    }

    pub(super) fn set_record(&self, state: WebhookState) {
        let id = self.scene.id.as_str();
        self.scene.fake.set_webhook_state(id, state).unwrap();
    }

    /// The loop panics.
    pub(super) async fn kill_loop(&self) {
        self.told.die.store(true, Ordering::Relaxed);
        self.told.turn.notify_one();
        while self.the_loop().1 == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// It is started again, which its supervisor does after a while.
    pub(super) async fn loop_lives_again(&self) {
        self.pass(Duration::from_secs(1));
        while self.the_loop().0 > Duration::ZERO {
            tokio::task::yield_now().await;
        }
    }

    /// It takes a turn.
    pub(super) async fn loop_turns(&self) {
        self.told.turn.notify_one();
        self.pass(Duration::from_millis(1));
        while self.the_loop().0 > Duration::ZERO {
            tokio::task::yield_now().await;
        }
    }

    /// Its age, and how often it was started again.
    fn the_loop(&self) -> (Duration, u64) {
        let loops = self.loops.loops();
        let one = loops.first().unwrap();
        (one.age, one.restarts)
    }
}

fn watch_over(scene: &Scene, free: &Arc<AtomicU64>, loops: &Shutdown) -> Watch {
    let base = &scene.world.base;
    let free = Arc::clone(free);
    let watched = Watched {
        loops: loops.clone(),
        intervals: vec![("worker", Duration::from_secs(30))],
        disk_free: Arc::new(move || Some(free.load(Ordering::Relaxed))),
        low_free_disk: scene.world.settings.store.low_free_disk,
    };
    let planner = scene.world.planner.clone();
    Watch::new(base.store.clone(), planner, base.clock.clone(), watched)
}

fn about(all: impl Iterator<Item = Value>, subject: &str) -> Vec<String> {
    let text = |value: &Value, path: &str| {
        let text = value.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    all.filter(|told| text(told, "/data/subject").starts_with(subject))
        .map(|told| text(&told, "/type"))
        .collect()
}
