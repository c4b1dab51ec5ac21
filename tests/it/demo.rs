//! The real program's `demo`: its exit code stands for what the database file says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tempfile::TempDir;

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookledger"));
    command.arg("demo").args(arguments);
    // Whatever a developer has set must not matter.
    command.env("HOOKLEDGER__RECONCILE__GRACE", "1h");
    command.env("HOOK_DB", "/nonexistent/real.db");
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = demo(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A story that was told and kept, and where.
fn kept() -> (TempDir, Vec<Value>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let (code, out, err) = run(&["--once", "--keep", path]);
    assert_eq!(code, Some(0), "{out}{err}");
    let tale = std::fs::read_to_string(directory.path().join("claims.json")).unwrap();
    let tale: Value = serde_json::from_str(&tale).unwrap();
    let claims = tale.get("claims").unwrap().as_array().unwrap().clone();
    (directory, claims)
}

fn word<'a>(claim: &'a Value, field: &str) -> &'a str {
    claim.get(field).and_then(Value::as_str).unwrap_or("")
}

fn operation_claimed<'a>(claims: &'a [Value], what: &str) -> &'a str {
    let claim = claims.iter().find(|c| word(c, "claim") == what).unwrap();
    word(claim, "operation")
}

fn alter(directory: &Path, statements: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(directory.join("demo.db"));
        let mut connection = options.connect().await.unwrap();
        for statement in statements {
            let done = sqlx::query(AssertSqlSafe(statement.clone()));
            done.execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    });
}

#[test]
fn the_story_is_told_and_the_file_confirms_it_within_half_a_minute() {
    let clock = SystemClock::new();
    let (code, out, err) = run(&["--once"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(clock.monotonic() < Duration::from_secs(30));
    for (line, times) in [
        ("settled as succeeded, by webhook", 2..=3),
        ("settled as succeeded, by reconcile", 1..=2),
        ("settled as failed, by webhook", 1..=1),
        ("had its effect once, with the key ", 5..=5),
        ("told by one accepted webhook and 1 folded duplicate", 1..=1),
        ("was named by no webhook and counts as rescued", 1..=1),
        ("refuted by the API, and stayed pending", 1..=1),
        ("15 of 15 claims hold.", 1..=1),
    ] {
        assert!(times.contains(&out.matches(line).count()), "{line}\n{out}");
    }
}

#[test]
fn one_altered_row_is_exit_code_1_and_names_the_claim() {
    let (directory, claims) = kept();
    let path = directory.path().to_str().unwrap();
    let (code, out, _) = run(&["--verify", path]);
    assert_eq!(code, Some(0), "{out}");

    let (lost, refuted) = (
        operation_claimed(&claims, "unheard"),
        operation_claimed(&claims, "refuted"),
    );
    let twice = claims
        .iter()
        .find(|c| c.get("copies").and_then(Value::as_u64) == Some(1));
    let twice = word(twice.unwrap(), "operation");
    let failed = claims.iter().find(|c| word(c, "state") == "failed");
    let failed = word(failed.unwrap(), "operation");
    let event = format!("(SELECT id FROM captured_events WHERE operation = '{twice}')");
    // How one row is altered, how that is undone, and what must be said about it.
    let cases = [
        (
            vec![format!(
                "UPDATE effects SET state = 'dead' WHERE operation_name = '{failed}'"
            )],
            format!("UPDATE effects SET state = 'done' WHERE operation_name = '{failed}'"),
            format!("{failed} had its effect once"),
        ),
        (
            vec![format!(
                "UPDATE processed_events SET duplicates = 0 WHERE event_id = {event}"
            )],
            format!("UPDATE processed_events SET duplicates = 1 WHERE event_id = {event}"),
            format!("{twice} was told by one accepted webhook and 1 folded duplicate"),
        ),
        (
            vec![format!(
                "UPDATE work_queue SET outcome = 'settled' \
                 WHERE ref_key = '{refuted}' AND outcome = 'not_terminal'"
            )],
            format!(
                "UPDATE work_queue SET outcome = 'not_terminal' \
                 WHERE id = (SELECT min(id) FROM work_queue WHERE ref_key = '{refuted}')"
            ),
            format!("{refuted} was said to have ended, refuted"),
        ),
        (
            vec![format!(
                "UPDATE operations SET told = 'webhook' WHERE name = '{lost}'"
            )],
            format!("UPDATE operations SET told = 'rescued' WHERE name = '{lost}'"),
            format!("{lost} was named by no webhook"),
        ),
        (
            // The file defends itself against this one.
            vec![
                "DROP TRIGGER operations_settled_once".to_owned(),
                format!("UPDATE operations SET settled_by = 'webhook' WHERE name = '{lost}'"),
            ],
            format!("UPDATE operations SET settled_by = 'reconcile' WHERE name = '{lost}'"),
            format!("{lost} settled as succeeded, by reconcile: NOT SO"),
        ),
    ];
    for (altering, undoing, said) in cases {
        alter(directory.path(), &altering);
        let (code, out, _) = run(&["--verify", path]);
        assert_eq!(code, Some(1), "{altering:?}\n{out}");
        let wrong: Vec<&str> = out.lines().filter(|l| l.starts_with(" ! ")).collect();
        let [wrong] = wrong.as_slice() else {
            panic!("{altering:?}\n{out}");
        };
        assert!(wrong.contains(&said), "{wrong}\nnot\n{said}");
        assert!(out.contains("14 of 15 claims hold."), "{out}");
        alter(directory.path(), &[undoing]);
        assert_eq!(run(&["--verify", path]).0, Some(0), "{altering:?}");
    }
}

#[test]
fn an_effect_that_came_twice_is_exit_code_1_and_json_says_which() {
    let (directory, claims) = kept();
    let file = directory.path().join("claims.json");
    let mut tale: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let received = tale.get_mut("received").and_then(Value::as_array_mut);
    let received = received.unwrap();
    assert_eq!(received.len(), 5);
    let again = received.first().unwrap().clone();
    received.push(again.clone());
    std::fs::write(&file, tale.to_string()).unwrap();
    let path = directory.path().to_str().unwrap();
    let (code, out, _) = run(&["--json", "--verify", path]);
    assert_eq!(code, Some(1), "{out}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document.get("claims").unwrap(), &Value::from(claims));
    let broken = document.get("broken").and_then(Value::as_array).unwrap();
    let [broken] = broken.as_slice() else {
        panic!("{out}");
    };
    let claim = broken.get("claim").unwrap();
    assert_eq!(word(claim, "claim"), "delivered");
    assert_eq!(word(claim, "key"), word(&again, "key"));
    assert_eq!(word(broken, "instead"), "the receiver got 2 effects");
}

#[test]
fn without_once_it_goes_on_and_can_be_played_with_until_interrupted() {
    let mut child = demo(&[]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut told, mut line) = (String::new(), String::new());
    // The last line that it prints by itself.
    while !line.contains("$ADMIN/metrics") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "{told}");
        told.push_str(&line);
    }
    assert!(told.contains("15 of 15 claims hold."), "{told}");
    let simulator = told.split("SIM=http://").nth(1).unwrap();
    let simulator = simulator.split_whitespace().next().unwrap();
    let job = r#"{"kind":"batch","complete_after_ms":0}"#;
    let mut stream = std::net::TcpStream::connect(simulator).unwrap();
    write!(
        stream,
        "POST /_sim/operations HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{job}",
        job.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let name = answer.split("\"batches/").nth(1).unwrap();
    let name = format!("batches/{}", name.split('"').next().unwrap());
    // Nobody registered it: it is adopted, and has its effect.
    while !line.starts_with("effect: ") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended early");
    }
    assert!(line.contains(&format!("{name} succeeded, key ")), "{line}");
    let id = i32::try_from(child.id()).unwrap();
    let id = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
