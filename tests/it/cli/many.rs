//! What is done to many at once, what goes on by itself, and what shells and scripts are told.

use serde_json::json;

use super::running::Running;
use super::{ADMIN, Place};

/// Deliveries, dead items and a dead effect, written as a crash or a person with a shell would.
const ROWS: &str = "
    INSERT INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms, settled_at_ms, settled_by)
    VALUES ('01a22c53-8200-7001-8a69-0dcc25d1f4b0', 'batches/a', 'a', 'batch', 'k', 1, 'succeeded',
            unixepoch() * 1000, unixepoch() * 1000, 'webhook');
    INSERT INTO captured_events (id, source, received_at_ms, verdict, event_type, operation, segment, proof, headers, body)
    VALUES ('01a22c53-0001-7000-8000-000000000000', 'gemini', unixepoch() * 1000, 'accepted', 'batch.succeeded', 'batches/a', 'a', 'hmac', '[]',
            CAST('{\"type\":\"batch.succeeded\",\"data\":{\"id\":\"batches/a\"}}' AS BLOB)),
           ('01a22c53-0002-7000-8000-000000000000', 'gemini', unixepoch() * 1000, 'accepted', 'batch.failed', 'batches/b', 'b', 'hmac', '[]',
            CAST('{\"type\":\"batch.failed\",\"data\":{\"id\":\"batches/b\"}}' AS BLOB));
    INSERT INTO work_queue (ref_key, raw, segment, reason, fresh, state, created_at_ms, available_at_ms, finished_at_ms)
    VALUES ('batches/x', 'batches/x', 'x', 'webhook', 1, 'dead', 1, 1, 1), ('batches/y', 'batches/y', 'y', 'reconcile', 1, 'dead', 1, 1, 1);
    INSERT INTO effects (id, operation_id, operation_name, effect, cause, idempotency_key, payload, state, planned_at_ms,
                         next_attempt_at_ms, give_up_at_ms, finished_at_ms)
    VALUES ('01a22c53-0003-7000-8000-000000000000', '01a22c53-8200-7001-8a69-0dcc25d1f4b0', 'batches/a', 'notify', 'succeeded',
            'key', x'7b7d', 'dead', 1, 1, 1, 1);
";

const SINCE: &str = "2020-01-01T00:00:00Z";

/// Counts first, then does, and finds the right things each time.
fn recover(place: &Place) {
    let sum = |matched: u64, done: u64, dry_run: bool| json!({"dry_run": dry_run, "matched": matched, "done": done, "skipped": 0});
    for (line, narrowed, all) in [
        (
            &["events", "replay", "--since", SINCE][..],
            ["--type", "batch.failed"],
            2,
        ),
        (&["queue", "retry"], ["--reason", "reconcile"], 2),
        (
            &["effects", "retry", "--state", "dead"],
            ["--effect", "other"],
            1,
        ),
    ] {
        let some = u64::from(all == 2);
        let dry = [line, &["--dry-run"]].concat();
        assert_eq!(place.json(&dry), sum(all, 0, true), "{line:?}");
        assert_eq!(
            place.json(&[&dry[..], &narrowed].concat()),
            sum(some, 0, true)
        );
        assert_eq!(
            place.json(&[line, &narrowed].concat()),
            sum(some, some, false)
        );
    }
    assert_eq!(place.json(&["queue", "retry"]), sum(1, 1, false));
    let shown = place.run(&["effects", "show", "01a22c53-0003-7000-8000-000000000000"]);
    assert!(
        shown.stdout.contains("\nidempotency_key  key\n"),
        "{}",
        shown.stdout
    );
    let text = place.run(&["effects", "retry", "--state", "dead"]);
    assert_eq!((text.code, text.stdout.as_str()), (0, "1 due again\n"));
    assert_eq!(
        place.run(&["queue", "retry", "--dry-run"]).stdout,
        "0 would be put back\n"
    );
}

#[tokio::test]
async fn many_are_recovered_on_the_file() {
    let place = Place::new().with_ledger();
    place.sql(ROWS).await;
    recover(&place);
}

#[tokio::test]
async fn many_are_recovered_through_the_service() {
    let mut place = Place::new().with_ledger();
    place.sql(ROWS).await;
    place.set(ADMIN.0, ADMIN.1);
    place.set("GEMINI_BASE_URL", "http://127.0.0.1:9");
    let _service = Running::serve(&place);
    recover(&place);
}

#[test]
fn choosing_both_one_and_many_or_neither_is_wrong_usage() {
    let place = Place::new().with_ledger();
    let id = "01a22c53-0001-7000-8000-000000000000";
    for (line, told) in [
        (&["events", "replay"][..], "say --since"),
        (
            &["events", "replay", id, "--since", "1h"],
            "leave out what chooses among many",
        ),
        (
            &["queue", "retry", "1", "--reason", "webhook"],
            "leave out what chooses among many",
        ),
        (
            &["queue", "retry", "--state", "done"],
            "only dead items are put back",
        ),
        (&["effects", "retry"], "say --state dead, held or ambiguous"),
        (
            &["effects", "retry", "--state", "done"],
            "say --state dead, held or ambiguous",
        ),
        (
            &["effects", "retry", id, "--state", "dead"],
            "leave out what chooses among many",
        ),
    ] {
        let why = place.refused(2, line);
        assert!(why.contains(told), "{why}");
    }
}

#[tokio::test]
async fn watching_one_ends_when_it_has_settled() {
    let place = Place::new().with_ledger();
    place.sql(ROWS).await;
    let ran = place.run(&["--json", "operations", "show", "batches/a", "--watch=1h"]);
    assert_eq!(
        (ran.code, ran.stdout.lines().count()),
        (0, 1),
        "{}",
        ran.stdout
    );
    assert_eq!(ran.json()["state"], "succeeded");
    place.refused(3, &["operations", "show", "batches/none", "--watch"]);
}

#[test]
fn watching_a_list_goes_on_until_it_is_interrupted() {
    use std::io::{BufRead as _, BufReader};
    let place = Place::new().with_ledger();
    let mut program = place.program();
    program.args(["--json", "operations", "list", "--watch=50ms"]);
    let mut child = program
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["operations"], json!([]));
    place.json(&[
        "operations",
        "register",
        "--name",
        "batches/a",
        "--job-kind",
        "k",
    ]);
    assert_eq!(next()["operations"][0]["name"], "batches/a");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn shells_and_man_know_every_command() {
    let place = Place::bare();
    let commands: Vec<String> = hookledger::cli::command()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    for shell in ["bash", "zsh", "fish"] {
        let ran = place.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for command in &commands {
            assert!(ran.stdout.contains(command.as_str()), "{shell}: {command}");
        }
    }
    let page = place.run(&["man"]).stdout;
    assert!(page.contains(".TH hookledger 1"), "{page}");
    let out = place.path().join("man");
    assert_eq!(place.run(&["man", "--out", "man"]).code, 0);
    for command in &commands {
        assert!(
            out.join(format!("hookledger-{command}.1")).exists(),
            "{command}"
        );
    }
    std::fs::write(place.path().join("file"), "").unwrap();
    let refused = place.run(&["man", "--out", "file"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("cannot write to file"),
        "{}",
        refused.stderr
    );
}

/// The table of docs/CLI.md, each code met by a command that ends with it.
#[test]
fn exit_codes_are_those_that_are_documented() {
    let text = include_str!("../../../docs/CLI.md");
    let section = text.split("## Exit codes").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let documented: Vec<i32> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(documented, [0, 1, 2, 3, 4, 5]);
    let help = hookledger::cli::command().render_help().to_string();
    for code in &documented {
        assert!(
            help.contains(&format!("{code} ")),
            "{code} is not in --help"
        );
    }
    let place = Place::new().with_ledger();
    let register = |kind| {
        place.run(&[
            "operations",
            "register",
            "--name",
            "batches/a",
            "--job-kind",
            kind,
        ])
    };
    let codes = [
        register("nightly").code,
        place.run(&["health"]).code,
        place.run(&["operations", "list", "--limit", "0"]).code,
        place.run(&["operations", "show", "batches/none"]).code,
        register("hourly").code,
    ];
    assert_eq!(codes, [0, 1, 2, 3, 4]);
    let holder = std::fs::File::options()
        .write(true)
        .open(place.path().join("webhook.db.lock"))
        .unwrap();
    holder.lock().unwrap();
    assert_eq!(place.run(&["queue", "retry"]).code, 5);
}
