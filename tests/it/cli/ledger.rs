//! The ledger by way of its file, with no service anywhere.

use std::process::Stdio;

use serde_json::json;

use super::{ADMIN, Place};

const NAME: &str = "batches/abc";

fn register(place: &Place, kind: &str) -> super::Ran {
    place.run(&["operations", "register", "--name", NAME, "--job-kind", kind])
}

#[test]
fn what_was_registered_is_listed_and_shown() {
    let place = Place::new().with_ledger();
    let metadata = r#"{"order": 7}"#;
    let new = place.json(&[
        "operations",
        "register",
        "--name",
        NAME,
        "--job-kind",
        "nightly",
        "--user-metadata",
        metadata,
    ]);
    assert_eq!(new["state"], "pending");
    assert_eq!(new["user_metadata"], json!({"order": 7}));

    // Again with the same kind is the same record; with another it is a conflict.
    assert_eq!(register(&place, "nightly").code, 0);
    let other = register(&place, "hourly");
    assert_eq!(other.code, 4);
    assert!(other.stderr.contains("nightly"), "{}", other.stderr);

    let list = place.json(&["operations", "list", "--state", "pending"]);
    assert_eq!(list["operations"].as_array().unwrap().len(), 1);
    assert_eq!(list["next_cursor"], json!(null));
    let none = place.json(&["operations", "list", "--state", "failed"]);
    assert_eq!(none["operations"], json!([]));

    let id = new["id"].as_str().unwrap();
    for which in [NAME, id] {
        let shown = place.json(&["operations", "show", which]);
        assert_eq!(shown["id"], new["id"]);
        assert_eq!(shown["effects"], json!([]));
        assert!(!shown["log"].as_array().unwrap().is_empty());
    }
    let text = place.run(&["operations", "show", NAME]).stdout;
    assert!(text.contains("history\n"), "{text}");
    assert!(text.contains(r#"{"order":7}"#), "{text}");
    let text = place.run(&["operations", "list"]).stdout;
    assert!(text.starts_with("ID"), "{text}");
    assert!(text.contains(NAME), "{text}");
}

#[test]
fn a_ledger_that_is_not_there_is_not_made() {
    let place = Place::new();
    for arguments in [
        &["operations", "list"][..],
        &["operations", "register", "--name", NAME, "--job-kind", "k"],
        &["operations", "reserve", "--job-kind", "k"],
        &["queue", "retry"],
    ] {
        let told = place.refused(2, arguments);
        assert!(told.contains("webhook.db does not exist"), "{told}");
        assert!(told.contains("store.path (HOOK_DB)"), "{told}");
    }
    let left = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 0, "something was made");
}

#[test]
fn the_service_makes_no_directory_for_its_ledger() {
    let mut place = Place::new();
    place.set("HOOK_DB", "mistyped/webhook.db");
    let told = place.run(&["serve"]);
    assert_eq!(told.code, 2, "{}", told.stderr);
    assert!(
        told.stderr.contains("no directory mistyped"),
        "{}",
        told.stderr
    );
    assert!(!place.path().join("mistyped").exists());
}

#[test]
fn pages_follow_one_another() {
    let place = Place::new().with_ledger();
    for n in 0..3 {
        let name = format!("batches/b{n}");
        place.json(&["operations", "register", "--name", &name, "--job-kind", "k"]);
    }
    let first = place.json(&["operations", "list", "--limit", "2"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = place.json(&["operations", "list", "--limit", "2", "--cursor", cursor]);
    let names = |page: &serde_json::Value| -> Vec<String> {
        let rows = page["operations"].as_array().unwrap();
        rows.iter()
            .map(|o| o["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&first), ["batches/b2", "batches/b1"]);
    assert_eq!(names(&second), ["batches/b0"]);
    let text = place.run(&["operations", "list", "--limit", "2"]).stdout;
    assert!(text.contains(&format!("--cursor {cursor}")), "{text}");
    place.refused(2, &["operations", "list", "--cursor", "nonsense"]);
}

#[test]
fn a_reservation_has_a_url_of_its_own_and_takes_one_name() {
    let mut place = Place::new().with_ledger();
    place.set(
        "HOOKLEDGER__SERVER__PUBLIC_URL",
        "https://hooks.example.com/",
    );
    let reserved = place.json(&["operations", "reserve", "--job-kind", "nightly"]);
    let id = reserved["id"].as_str().unwrap().to_owned();
    let url = reserved["webhook_url"].as_str().unwrap();
    assert!(url.starts_with(&format!("https://hooks.example.com/hooks/gemini/{id}.")));
    assert_eq!(reserved["user_metadata"]["hookledger_id"], id.as_str());

    let bind = |kind: &str, name: &str| {
        place
            .run(&[
                "operations",
                "register",
                "--reservation",
                &id,
                "--name",
                name,
                "--job-kind",
                kind,
            ])
            .code
    };
    assert_eq!(bind("hourly", NAME), 4);
    assert_eq!(bind("nightly", NAME), 0);
    assert_eq!(bind("nightly", "batches/other"), 4);
    assert_eq!(place.json(&["operations", "show", &id])["name"], NAME);

    place
        .environment
        .retain(|(name, _)| name != "HOOK_PATH_TOKEN");
    let told = place.refused(2, &["operations", "reserve", "--job-kind", "k"]);
    assert!(told.contains("HOOK_PATH_TOKEN"), "{told}");
}

#[test]
fn what_is_not_there_is_three() {
    let place = Place::new().with_ledger();
    register(&place, "nightly");
    let nobody = "019bd0a0-0000-7000-8000-000000000000";
    for arguments in [
        &["operations", "show", "batches/none"][..],
        &["operations", "show", nobody],
        &["operations", "retry", "batches/none"],
        &["events", "show", nobody],
        &["events", "curl", nobody],
        &["events", "replay", nobody],
        &["effects", "show", nobody],
        &["effects", "retry", nobody],
        &["effects", "resolve", nobody, "--as", "dead"],
        &["queue", "retry", "7"],
    ] {
        place.refused(3, arguments);
    }
    assert_eq!(place.json(&["queue", "retry"])["done"], 0);
    assert_eq!(place.json(&["events", "list"])["events"], json!([]));
    assert_eq!(place.json(&["effects", "list"])["effects"], json!([]));
    assert_eq!(place.run(&["events", "list"]).stdout, "no events\n");
}

#[test]
fn a_retry_wakes_the_worker_by_the_queue() {
    let place = Place::new().with_ledger();
    register(&place, "nightly");
    let ran = place.run(&["operations", "retry", NAME]);
    assert_eq!(
        (ran.code, ran.stdout.contains(NAME)),
        (0, true),
        "{}",
        ran.stderr
    );
    let items = place.json(&["queue", "list", "--state", "ready"]);
    let items = items["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["operation"], NAME);
}

#[tokio::test]
async fn beside_another_process_reading_works_and_writing_says_why_not() {
    let mut place = Place::new().with_ledger();
    register(&place, "nightly");
    let holder = std::fs::File::options()
        .write(true)
        .open(place.path().join("webhook.db.lock"))
        .unwrap();
    holder.lock().unwrap();
    let list = place.json(&["operations", "list"]);
    assert_eq!(list["operations"][0]["name"], NAME);
    let told = place.refused(5, &["operations", "retry", NAME]);
    assert!(told.contains("set HOOKLEDGER_ADMIN_TOKEN"), "{told}");
    place.set(ADMIN.0, ADMIN.1);
    let told = place.refused(5, &["operations", "retry", NAME]);
    assert!(told.contains("no admin API answers at 127."), "{told}");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let place = Place::new().with_ledger();
    register(&place, "nightly");
    let mut child = place
        .program()
        .args(["check"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_id_that_is_none_is_told_what_is_wanted() {
    let place = Place::new();
    for (arguments, wanted) in [
        (&["events", "show", "nope"][..], "an event id is wanted"),
        (&["effects", "retry", "nope"], "an effect id is wanted"),
        (&["queue", "retry", "nope"], "an item id is wanted"),
        (&["operations", "show", "nope"], "or its ledger id"),
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains(wanted), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn open_alerts_are_listed() {
    let place = Place::new().with_ledger();
    assert_eq!(place.run(&["alerts", "list"]).stdout, "no alerts\n");
    place
        .sql(
            "INSERT INTO alerts (subject, state, summary, opened_at_ms) VALUES \
             ('gemini/key', 'open', 'the key is refused', 1796040000000)",
        )
        .await;
    let list = place.json(&["alerts", "list"]);
    assert_eq!(list["alerts"].as_array().unwrap().len(), 1);
    assert_eq!(list["alerts"][0]["subject"], "gemini/key");
    let text = place.run(&["alerts", "list"]).stdout;
    assert!(text.contains("the key is refused"), "{text}");
}

#[test]
fn a_mistyped_variable_is_told_to_every_command() {
    let mut place = Place::new().with_ledger();
    place.set("HOOK_DBB", "elsewhere.db");
    let ran = place.run(&["operations", "list"]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.stderr.contains("did you mean HOOK_DB?"),
        "{}",
        ran.stderr
    );
}

#[test]
fn health_names_the_address_that_does_not_answer() {
    let place = Place::new();
    let ran = place.run(&["health"]);
    assert_eq!(ran.code, 1);
    let address = format!("http://{}", place.get("HOOKLEDGER_LISTEN"));
    assert!(ran.stdout.contains(&address), "{}", ran.stdout);
}

#[test]
fn the_service_says_that_a_port_is_taken_only_when_it_is() {
    let mut place = Place::new();
    let taken = std::net::TcpListener::bind(place.get("HOOKLEDGER_LISTEN")).unwrap();
    let told = place.run(&["serve"]).stderr;
    assert!(told.contains("is the port taken?"), "{told}");
    drop(taken);
    // An address of the documentation's, so of no machine.
    place.set("HOOKLEDGER_LISTEN", "192.0.2.1:8080");
    let told = place.run(&["serve"]).stderr;
    assert!(told.contains("cannot listen on 192.0.2.1:8080"), "{told}");
    assert!(!told.contains("taken"), "{told}");
}

#[test]
fn lists_are_narrowed_by_flags() {
    let place = Place::new().with_ledger();
    for (name, kind) in [
        ("batches/a1", "nightly"),
        ("batches/a2", "hourly"),
        ("interactions/b", "nightly"),
    ] {
        place.json(&["operations", "register", "--name", name, "--job-kind", kind]);
    }
    assert_eq!(place.run(&["operations", "retry", "batches/a1"]).code, 0);
    let names = |flags: &[&str]| -> Vec<String> {
        let line = [&["operations", "list"], flags].concat();
        let rows = place.json(&line)["operations"].clone();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|o| o["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&["--q", "a"]), ["batches/a2", "batches/a1"]);
    assert_eq!(
        names(&["--job-kind", "nightly", "--kind", "batch"]),
        ["batches/a1"]
    );
    assert_eq!(
        names(&["--since", "1h", "--told", "undecided", "--limit", "1"]),
        ["interactions/b"]
    );
    for nothing in [
        &["--until", "1h"][..],
        &["--since", "2100-01-01T00:00:00Z"],
        &["--overdue"],
        &["--settled-by", "webhook"],
        &["--state", "failed"],
    ] {
        assert!(names(nothing).is_empty(), "{nothing:?}");
    }
    for (line, list, wanted) in [
        (
            &["queue", "list", "--reason", "operator", "--q", "batches/"][..],
            "items",
            1,
        ),
        (&["queue", "list", "--state", "dead"], "items", 0),
        (
            &[
                "events",
                "list",
                "--type",
                "x",
                "--verdict",
                "ignored",
                "--source",
                "gemini",
            ],
            "events",
            0,
        ),
        (
            &["effects", "list", "--effect", "x", "--on", "succeeded"],
            "effects",
            0,
        ),
    ] {
        let rows = place.json(line)[list].as_array().unwrap().len();
        assert_eq!(rows, wanted, "{line:?}");
    }
    for (flags, told) in [
        (["--since", "soon"], "an age such as 2h"),
        (
            ["--q", "a b"],
            "the beginning of an operation's last segment",
        ),
        (["--told", "x"], "rescued"),
    ] {
        let ran = place.run(&[&["operations", "list"], &flags[..]].concat());
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
}
