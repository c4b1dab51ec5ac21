//! The program as a process of its own: started, watched from outside, stopped and killed.
//!
//! Nothing is shared with it but its sockets and its file. Waiting is polling with a deadline.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use tokio::process::{Child, Command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hookledger");
/// How long a debug build may take from `exec` to ready.
const UP: Duration = Duration::from_secs(120);

/// One running `hookledger serve`. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Starts the program on this configuration and nothing of the environment but `secrets`. Its log
    /// is appended to `log`.
    pub(crate) fn spawn(config: &Path, log: &Path, secrets: &[(&str, &str)]) -> Self {
        Self::run(Command::new(PROGRAM), config, log, secrets)
    }

    /// The same under another program, which must start the rest of its command line in its own place.
    pub(crate) fn spawn_under(
        wrapper: &[&str],
        config: &Path,
        log: &Path,
        secrets: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(wrapper.first().unwrap());
        command.args(wrapper.get(1..).unwrap()).arg(PROGRAM);
        Self::run(command, config, log, secrets)
    }

    /// Starts the program on sockets that were opened here: the public one and the operator's.
    pub(crate) fn spawn_on(
        public: &TcpListener,
        admin: &TcpListener,
        config: &Path,
        log: &Path,
        secrets: &[(&str, &str)],
    ) -> Self {
        let mut shell = Command::new("/bin/sh");
        // Nothing but the three streams survives `exec` from here, so they carry the sockets.
        let script = format!(
            "exec 3<&0 4<&1 0</dev/null 1>/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2 \
             LISTEN_FDNAMES=hookledger.socket:admin; exec {PROGRAM} \"$@\""
        );
        shell.args(["-c", &script, "sh"]);
        let stream = |socket: &TcpListener| Stdio::from(OwnedFd::from(socket.try_clone().unwrap()));
        Self::piped(shell, config, log, secrets, stream(public), stream(admin))
    }

    fn run(command: Command, config: &Path, log: &Path, secrets: &[(&str, &str)]) -> Self {
        let nothing = Stdio::null;
        Self::piped(command, config, log, secrets, nothing(), nothing())
    }

    fn piped(
        mut command: Command,
        config: &Path,
        log: &Path,
        secrets: &[(&str, &str)],
        stdin: Stdio,
        stdout: Stdio,
    ) -> Self {
        let lines = File::options().create(true).append(true).open(log).unwrap();
        let child = command
            .arg("--config")
            .arg(config)
            .arg("serve")
            .env_clear()
            .envs(secrets.iter().copied())
            .current_dir(config.parent().unwrap())
            .stdin(stdin)
            .stdout(stdout)
            .stderr(lines)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            child,
            log: log.to_owned(),
        }
    }

    /// Waits until `/readyz` says yes.
    pub(crate) async fn ready(&mut self, address: SocketAddr) {
        let http = client();
        let url = format!("http://{address}/readyz");
        let clock = SystemClock::new();
        while clock.monotonic() < UP {
            if let Ok(answer) = http.get(&url).send().await
                && answer.status() == 200
            {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!(
                    "it ended ({status}) before it was ready:\n{}",
                    self.logged()
                );
            }
            clock.sleep(Duration::from_millis(10)).await;
        }
        panic!("not ready after {UP:?}:\n{}", self.logged());
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Sends SIGHUP.
    pub(crate) fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.id()).unwrap();
        let process = rustix::process::Pid::from_raw(id).unwrap();
        rustix::process::kill_process(process, signal).unwrap();
    }

    /// Waits for its end, `within` at most.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        let Ok(status) = tokio::time::timeout(within, self.child.wait()).await else {
            panic!(
                "still running after {within:?}:
{}",
                self.logged()
            );
        };
        status.unwrap()
    }

    /// Its process id, while it runs.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// One command of the program, to its end.
pub(crate) async fn command(
    config: &Path,
    arguments: &[&str],
    secrets: &[(&str, &str)],
) -> std::process::Output {
    let mut command = Command::new(PROGRAM);
    command
        .arg("--config")
        .arg(config)
        .args(arguments)
        .env_clear()
        .envs(secrets.iter().copied())
        .current_dir(config.parent().unwrap())
        .stdin(Stdio::null());
    command.output().await.unwrap()
}

/// A client that waits longer than the service may.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

/// An address for a process that is to come back under it. Below the range that the kernel hands out
/// by itself, so nobody's outgoing connection takes it meanwhile.
pub(crate) fn address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let turn = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = std::process::id().wrapping_mul(37).wrapping_add(turn) % 12_000;
        let port = u16::try_from(20_000 + offset).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Asks again and again until the answer is there.
pub(crate) async fn eventually<T>(
    what: &str,
    within: Duration,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let clock = SystemClock::new();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(clock.monotonic() < within, "not within {within:?}: {what}");
        clock.sleep(Duration::from_millis(20)).await;
    }
}
