//! The program itself, run as an operator runs it: a directory of its own and an environment that
//! holds nothing but what the test says.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod backup;
mod check;
mod curl;
mod doctor;
mod ledger;
mod many;
mod restore;
mod running;
mod webhooks;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::SystemClock;
use hookledger::base::ids::RandomIds;
use hookledger::base::shutdown::Shutdown;
use hookledger::store::{OpenOptions, Store};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::process::address;

/// Secrets that pass every check and must never be printed.
const CANARIES: [(&str, &str); 4] = [
    ("HOOK_PATH_TOKEN", "canary-path-token-0123456789abcdef"),
    ("HOOK_SHARED_SECRET", "canary-shared-secret-0123456789abc"),
    ("GEMINI_API_KEY", "canary-api-key-0123456789abcdefgh"),
    (
        "GEMINI_WEBHOOK_SECRETS",
        "whsec_Y2FuYXJ5LXNpZ25pbmctc2VjcmV0LTAxMjM0NTY3ODk=",
    ),
];
/// As above; a test that wants the admin API sets it.
const ADMIN: (&str, &str) = (
    "HOOKLEDGER_ADMIN_TOKEN",
    "canary-admin-token-0123456789abcdef",
);

/// A directory to run in.
struct Place {
    dir: TempDir,
    environment: Vec<(String, String)>,
}

/// How a run ended.
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Place {
    /// With the canaries in the environment and nothing listening.
    fn new() -> Self {
        let mut place = Self::bare();
        for (name, value) in CANARIES {
            place.set(name, value);
        }
        place
    }

    /// With an environment that holds only where nothing listens.
    fn bare() -> Self {
        let mut place = Self {
            dir: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
        };
        place.set("HOOKLEDGER_LISTEN", &address().to_string());
        place.set("HOOKLEDGER_ADMIN_LISTEN", &address().to_string());
        place
    }

    /// As the service left it: with a ledger that is empty.
    fn with_ledger(self) -> Self {
        let options = OpenOptions {
            path: self.path().join("webhook.db"),
            create: true,
            readers: 1,
            max_waiting: 1 << 20,
            check_at_once: hookledger::store::CHECK_AT_ONCE,
        };
        let made = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let clock = Arc::new(SystemClock::new());
                let group = Shutdown::new(clock.clone());
                let ids = Arc::new(RandomIds::seeded(1));
                let store = Store::open(&options, clock, ids, &group).await.unwrap();
                store.close().await;
                assert!(group.drain(Duration::from_secs(5)).await);
            });
        });
        made.join().unwrap();
        // Another test may have forked meanwhile: its child holds a copy of the lock until it is the
        // program that it becomes.
        let lock = std::fs::File::open(self.path().join("webhook.db.lock")).unwrap();
        lock.lock().unwrap();
        self
    }

    /// Runs SQL on the ledger, as somebody with a shell would.
    async fn sql(&self, statement: &'static str) {
        use sqlx::Connection as _;
        let options =
            sqlx::sqlite::SqliteConnectOptions::new().filename(self.path().join("webhook.db"));
        let mut ledger = sqlx::SqliteConnection::connect_with(&options)
            .await
            .unwrap();
        sqlx::query(statement).execute(&mut ledger).await.unwrap();
        ledger.close().await.unwrap();
    }

    fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    fn get(&self, name: &str) -> &str {
        let found = self.environment.iter().find(|(known, _)| known == name);
        &found.unwrap().1
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .envs(self.environment.iter().map(|(n, v)| (n, v)))
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    fn program(&self) -> Command {
        self.command(env!("CARGO_BIN_EXE_hookledger"))
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.program().args(arguments).output().unwrap())
    }

    /// Runs it, wants success, and reads the one document it must print.
    fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stderr, "", "{arguments:?}");
        ran.json()
    }

    /// Runs it, wants this exit code and nothing on standard output.
    fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(
            ran.code, code,
            "{arguments:?}: {}{}",
            ran.stdout, ran.stderr
        );
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert!(ran.stderr.starts_with("hookledger: "), "{}", ran.stderr);
        ran.stderr
    }
}

impl Ran {
    /// Every run of every test passes here, so none may print a secret.
    fn of(output: &Output) -> Self {
        let ran = Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8(output.stderr.clone()).unwrap(),
        };
        for (name, secret) in CANARIES.iter().chain([&ADMIN]) {
            for text in [&ran.stdout, &ran.stderr] {
                assert!(!text.contains(secret), "{name} was printed: {text}");
            }
        }
        ran
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}
