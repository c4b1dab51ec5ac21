//! What most tests stand on: a real store in a temporary directory, a clock they move, and a world
//! of use cases around a scripted API.

pub(crate) mod document;
pub(crate) mod load;
pub(crate) mod outside;
pub(crate) mod process;
pub(crate) mod sink;
pub(crate) mod stand;
pub(crate) mod world;

use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::{ManualClock, Timestamp};
use hookledger::base::ids::{Ids, RandomIds};
use hookledger::base::shutdown::Shutdown;
use hookledger::config::{Inputs, Purpose, Settings};
use hookledger::store::{OpenOptions, Store};
use tempfile::TempDir;

/// A secret that passes every check; plainly fake.
pub(crate) const PATH_TOKEN: &str = "test-path-token-0123456789abcdef";
/// Another.
pub(crate) const SHARED_SECRET: &str = "test-shared-secret-fedcba9876543210";
/// 2026-11-30T12:00:00Z, where the clock of a test stands at first.
pub(crate) const START_MS: i64 = 1_796_040_000_000;
/// The same, as a moment.
pub(crate) const NOON: Timestamp = Timestamp::from_millis(START_MS);

/// A store and what it was opened with.
pub(crate) struct TestStore {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) group: Shutdown,
    pub(crate) dir: TempDir,
}

impl TestStore {
    pub(crate) async fn open() -> Self {
        Self::open_in(tempfile::tempdir().unwrap(), NOON, 1).await
    }

    pub(crate) async fn open_in(dir: TempDir, now: Timestamp, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::starting_at(now));
        let ids: Arc<dyn Ids> = Arc::new(RandomIds::seeded(seed));
        let group = Shutdown::new(clock.clone());
        let options = options(&dir);
        let store = Store::open(&options, clock.clone(), ids.clone(), &group)
            .await
            .unwrap();
        Self {
            store,
            clock,
            ids,
            group,
            dir,
        }
    }

    /// Closes the store in good order and hands the directory back.
    pub(crate) async fn close(self) -> (TempDir, Timestamp) {
        let now = hookledger::base::clock::Clock::now(&*self.clock);
        self.store.close().await;
        assert!(
            self.group.drain(Duration::from_secs(5)).await,
            "the writer did not stop"
        );
        (self.dir, now)
    }
}

pub(crate) fn options(dir: &TempDir) -> OpenOptions {
    OpenOptions {
        path: dir.path().join("test.db"),
        create: true,
        readers: 2,
        max_waiting: 8 << 20,
        check_at_once: hookledger::store::CHECK_AT_ONCE,
    }
}

/// The default settings with `toml` laid over them.
pub(crate) fn settings(toml: &str) -> Settings {
    let environment = [
        ("HOOK_PATH_TOKEN", PATH_TOKEN),
        ("HOOK_SHARED_SECRET", SHARED_SECRET),
        ("GEMINI_API_KEY", "test-key"),
    ];
    let inputs = Inputs::new().with_text(toml).with_environment(environment);
    match hookledger::config::load(&inputs, Purpose::Serve) {
        Ok(loaded) => loaded.settings,
        Err(problems) => panic!("{problems}"),
    }
}

/// Runs SQL on the file from outside, as somebody with a shell would.
pub(crate) async fn sql(dir: &TempDir, statement: &'static str) {
    use sqlx::Connection as _;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("test.db"));
    let mut connection = sqlx::SqliteConnection::connect_with(&options)
        .await
        .unwrap();
    sqlx::query(statement)
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}
