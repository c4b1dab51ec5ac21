//! The `command` effect: a program of the operator's, run once per attempt.
//!
//! No shell: the configured words are the arguments, and nothing from an operation ever becomes
//! one. The payload comes on standard input; key, operation, effect and attempt come in
//! `HOOKLEDGER_*` variables. Of our own environment only [`PASSED_ON`] reaches the program, because
//! the rest holds the API key and the tokens.
//!
//! | the program | delivery |
//! |---|---|
//! | ends with 0 | done |
//! | ends with 75 (`EX_TEMPFAIL`) | retry |
//! | ends with anything else | refused: it ran, looked and said no; a person decides |
//! | is killed by a signal, or by us at the time limit | ambiguous |
//! | cannot be started | retry |
//!
//! Standard output and error go nowhere: they may repeat the payload, which no log of ours may
//! show, and a pipe that nobody empties would stop the program. A command that has something to say
//! writes its own log.
//!
//! The program leads its own process group and the whole group is killed at the time limit or when
//! this attempt is dropped, so that a child it started does not live on and act later. Race: a
//! group's number may be given out again once its leader is reaped. The group is therefore only
//! ever killed before that. What the program leaves running after it ended by itself is its own
//! affair, and is not waited for.

use std::fmt;
use std::io::ErrorKind;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};

use super::{Effect, Message};
use crate::domain::effect::Delivery;

/// The variables a program needs to find its files and speak its language.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// `EX_TEMPFAIL`: the program asks to be tried again.
const TRY_AGAIN: i32 = 75;
/// How long a killed program may take to be gone.
const REAP: Duration = Duration::from_secs(2);

/// Runs one program.
pub(super) struct Command {
    program: String,
    arguments: Vec<String>,
    timeout: Duration,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may hold secrets.
        f.debug_struct("Command")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Command {
    /// Takes the configured words apart.
    pub(super) fn new(argv: &[String], timeout: Duration) -> Result<Self, String> {
        let (program, arguments) = argv
            .split_first()
            .filter(|(program, _)| !program.is_empty())
            .ok_or_else(|| "argv must name a program".to_owned())?;
        if argv.iter().any(|word| word.contains('\0')) {
            return Err("argv holds a NUL character".to_owned());
        }
        Ok(Self {
            program: program.clone(),
            arguments: arguments.to_vec(),
            timeout,
        })
    }

    fn start(&self, message: &Message) -> std::io::Result<Child> {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(
                PASSED_ON
                    .iter()
                    .filter_map(|name| std::env::var_os(name).map(|value| (name, value))),
            )
            .env("HOOKLEDGER_IDEMPOTENCY_KEY", &message.key)
            .env("HOOKLEDGER_EFFECT", &message.effect)
            .env("HOOKLEDGER_ATTEMPT", message.attempt.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(operation) = &message.operation {
            command.env("HOOKLEDGER_OPERATION", operation.as_str());
        }
        command.spawn()
    }
}

/// Kills a process group when dropped, unless its leader has been reaped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn reaped(&mut self) {
        self.0 = None;
    }

    fn kill(&self) {
        if let Some(leader) = self.0 {
            // It may have ended just now: then there is nobody left to kill.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes the payload and closes the pipe. A program that does not read it is within its rights.
async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload).await;
        let _ = stdin.shutdown().await;
    }
}

/// Waits for the program alone: a pipe that is never read must not delay its end.
async fn run(child: &mut Child, payload: &[u8]) -> std::io::Result<ExitStatus> {
    let stdin = child.stdin.take();
    let mut fed = std::pin::pin!(feed(stdin, payload));
    let mut ended = std::pin::pin!(child.wait());
    tokio::select! {
        status = &mut ended => status,
        () = &mut fed => ended.await,
    }
}

#[async_trait]
impl Effect for Command {
    async fn deliver(&self, message: &Message) -> Delivery {
        let mut child = match self.start(message) {
            Ok(child) => child,
            Err(error) => return not_started(&error),
        };
        // Dropped before `child`, so while the leader still holds its number.
        let mut group = Group::of(&child);
        match tokio::time::timeout(self.timeout, run(&mut child, &message.payload)).await {
            Ok(Ok(status)) => {
                group.reaped();
                of_status(status)
            }
            Ok(Err(_)) => Delivery::Ambiguous {
                why: "the program's end could not be read".to_owned(),
            },
            Err(_) => {
                group.kill();
                // Not for ever: a process that hangs in the kernel dies when the kernel lets it.
                if let Ok(Ok(_)) = tokio::time::timeout(REAP, child.wait()).await {
                    group.reaped();
                }
                Delivery::Ambiguous {
                    why: "the program was killed at its time limit".to_owned(),
                }
            }
        }
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn kind(&self) -> &'static str {
        "command"
    }
}

fn not_started(error: &std::io::Error) -> Delivery {
    let why = match error.kind() {
        ErrorKind::NotFound => "no such file",
        ErrorKind::PermissionDenied => "permission denied",
        ErrorKind::ArgumentListTooLong => "arguments too long",
        _ => "the system refused",
    };
    Delivery::Retry {
        after: None,
        why: format!("the program could not be started ({why})"),
    }
}

fn of_status(status: ExitStatus) -> Delivery {
    match status.code() {
        Some(0) => Delivery::Done,
        Some(TRY_AGAIN) => Delivery::Retry {
            after: None,
            why: "the program asked to be tried again (exit status 75)".to_owned(),
        },
        Some(code) => Delivery::Refused {
            why: format!("the program ended with exit status {code}"),
        },
        None => Delivery::Ambiguous {
            why: "the program was killed by a signal".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argv_must_name_a_program() {
        let limit = Duration::from_secs(1);
        for argv in [
            vec![],
            vec![String::new()],
            vec!["a".to_owned(), "b\0".to_owned()],
        ] {
            assert!(Command::new(&argv, limit).is_err(), "{argv:?}");
        }
        let command =
            Command::new(&["/bin/x".to_owned(), "--token=hush".to_owned()], limit).unwrap();
        assert!(!format!("{command:?}").contains("hush"));
    }
}
