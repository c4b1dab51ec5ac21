//! The `command` effect with small scripts.

use std::path::Path;
use std::time::Duration;

use hookledger::config::settings::Action;
use hookledger::domain::effect::Delivery;

use super::{KEY, LIMIT, effect, message, told};

fn sh(script: &str, arguments: &[&str]) -> Action {
    let words = ["/bin/sh", "-c", script, "sh"];
    let argv = words.iter().chain(arguments).map(|w| (*w).to_owned());
    Action::Command {
        argv: argv.collect(),
    }
}

async fn run(script: &str) -> (&'static str, String) {
    told(effect(sh(script, &[]), LIMIT).deliver(&message("{}")).await)
}

#[tokio::test]
async fn the_payload_comes_on_standard_input_and_the_rest_in_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    let script = "cat > \"$1/body\"; env > \"$1/env\"";
    let mut one = message("{ \"a\":\"$(reboot) `x` ' \\\" \"}");
    one.attempt = 3;
    // Cargo gives tests variables that stand for everything that must not be passed on.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let delivery = effect(sh(script, &[at]), LIMIT).deliver(&one).await;
    assert_eq!(delivery, Delivery::Done);

    let body = std::fs::read(dir.path().join("body")).unwrap();
    assert_eq!(body, one.payload);
    let env = std::fs::read_to_string(dir.path().join("env")).unwrap();
    for line in [
        format!("HOOKLEDGER_IDEMPOTENCY_KEY={KEY}"),
        "HOOKLEDGER_OPERATION=batches/a".to_owned(),
        "HOOKLEDGER_EFFECT=notify".to_owned(),
        "HOOKLEDGER_ATTEMPT=3".to_owned(),
    ] {
        assert!(env.lines().any(|l| l == line), "{line} in {env}");
    }
    assert!(env.lines().any(|l| l.starts_with("PATH=")));
    assert!(!env.contains("CARGO"), "{env}");
}

#[tokio::test]
async fn words_reach_the_program_as_they_are_configured() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let words = ["a b", "$HOME", "`id`; true", "*"];
    let arguments: Vec<&str> = std::iter::once(out.to_str().unwrap())
        .chain(words)
        .collect();
    let script = "out=$1; shift; printf '%s\\n' \"$@\" > \"$out\"";
    let delivery = effect(sh(script, &arguments), LIMIT)
        .deliver(&message("{}"))
        .await;
    assert_eq!(delivery, Delivery::Done);
    let seen = std::fs::read_to_string(out).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), words);
}

#[tokio::test]
async fn the_exit_status_decides() {
    for (script, word, part) in [
        ("exit 0", "done", ""),
        ("exit 75", "retry", "75"),
        ("exit 1", "refused", "exit status 1"),
        ("exit 127", "refused", "127"),
        ("kill -9 $$", "ambiguous", "signal"),
        ("echo the payload >&2; exit 3", "refused", "exit status 3"),
    ] {
        let (got, why) = run(script).await;
        assert_eq!(got, word, "{script}: {why}");
        assert!(
            why.contains(part) && !why.contains("payload"),
            "{script}: {why}"
        );
    }
}

#[tokio::test]
async fn a_program_that_cannot_start_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("not-executable");
    std::fs::write(&plain, "").unwrap();
    for (program, part) in [
        ("/no/such/program", "no such file"),
        (plain.to_str().unwrap(), "permission denied"),
    ] {
        let action = Action::Command {
            argv: vec![program.to_owned()],
        };
        let (word, why) = told(effect(action, LIMIT).deliver(&message("{}")).await);
        assert_eq!(word, "retry", "{why}");
        assert!(why.contains(part) && !why.contains(program), "{why}");
    }
}

#[tokio::test]
async fn no_pipe_can_block_the_program_or_us() {
    let large = "x".repeat(4 << 20);
    for script in [
        // Reads nothing.
        "exit 0",
        // Says more than a pipe holds, on both, before it reads.
        "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; cat > /dev/null",
        // Leaves a child behind that keeps our pipe open.
        "sleep 20 <&0 & exit 0",
    ] {
        let delivery = effect(sh(script, &[]), LIMIT)
            .deliver(&message(large.clone()))
            .await;
        assert_eq!(delivery, Delivery::Done, "{script}");
    }
}

#[tokio::test]
async fn the_time_limit_kills_and_is_ambiguous() {
    let action = sh("sleep 1000", &[]);
    let (word, why) = told(
        effect(action, Duration::from_millis(300))
            .deliver(&message("{}"))
            .await,
    );
    assert_eq!(word, "ambiguous");
    assert!(why.contains("time limit"), "{why}");
}

/// Whether a process runs; one that only waits to be reaped does not.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    // `pid (name) state …`; the name of our processes holds no bracket.
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap().starts_with('Z'))
}

#[tokio::test]
async fn an_attempt_that_ends_early_takes_its_whole_process_group_along() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    // Both are written before the loop below sees the file's last line.
    let script = "sleep 1000 & printf '%s\\n%s\\n' $! $$ > \"$1\"; wait";
    let target = effect(sh(script, &[file.to_str().unwrap()]), LIMIT);
    let one = message("{}");
    let pids = async {
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.lines().count() == 2 && text.ends_with('\n') {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    let pids = tokio::select! {
        delivery = target.deliver(&one) => panic!("ended by itself: {delivery:?}"),
        pids = pids => pids,
    };
    let gone = async {
        while pids.lines().any(lives) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, gone).await.unwrap();
}
