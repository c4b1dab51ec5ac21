//! `check`, `secret`, and what the command line itself refuses.

use serde_json::Value;

use super::{ADMIN, Place, Ran};

#[test]
fn everything_wrong_is_said_at_once() {
    let mut place = Place::bare();
    place.set("HOOK_PATH_TOKEN", "short");
    std::fs::write(
        place.path().join("bad.toml"),
        "[worker]\nlease = '10s'\n[server]\nlisten = 'nowhere'\nlisen = 'x'\n",
    )
    .unwrap();
    let ran = place.run(&["--config", "bad.toml", "check"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    for key in [
        "hooks.path_token",
        "hooks.shared_secret",
        "worker.lease",
        "server.lisen",
    ] {
        let told = lines.iter().filter(|l| l.trim().starts_with(key)).count();
        assert_eq!(told, 1, "{key}: {}", ran.stderr);
    }

    let ran = place.run(&["--json", "--config", "bad.toml", "check"]);
    assert_eq!(ran.code, 2);
    let document = ran.json();
    assert_eq!(document["ok"], false);
    let problems = document["problems"].as_array().unwrap();
    assert_eq!(problems.len(), lines.len() - 1, "{problems:#?}");
    assert!(problems.iter().all(|p| p["fix"].is_string()));
    // `serve` refuses the same things in the same words.
    let serve = place.run(&["--config", "bad.toml", "serve"]);
    assert_eq!((serve.code, serve.stderr), (2, lines.join("\n") + "\n"));
}

#[test]
fn a_store_without_its_directory_is_told() {
    let place = Place::new();
    std::fs::write(place.path().join("file"), "").unwrap();
    for (path, what) in [
        (
            "absent/webhook.db",
            "lies in a directory that does not exist (absent)",
        ),
        (
            "file/webhook.db",
            "lies in something that is not a directory (file)",
        ),
    ] {
        let set = format!("store.path={path}");
        let ran = place.run(&["check", "--set", &set]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(
            ran.stderr.contains(&format!("store.path: {what}")),
            "{}",
            ran.stderr
        );
        let ran = place.run(&["--json", "check", "--set", &set]);
        assert_eq!(
            (ran.code, &ran.json()["problems"][0]["key"]),
            (2, &"store.path".into())
        );
    }
    assert_eq!(
        place.run(&["check", "--set", "store.path=other.db"]).code,
        0
    );
}

#[test]
fn a_good_configuration_is_shown_without_its_secrets_and_nothing_is_opened() {
    let mut place = Place::new();
    place.set(ADMIN.0, ADMIN.1);
    place.set("HOOKLEDGER_CONFIG", "from-environment.toml");
    std::fs::write(
        place.path().join("from-environment.toml"),
        "[worker]\nconcurrency = 5\n",
    )
    .unwrap();
    let ran = place.run(&["check", "--set", "worker.lease=77s"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let row = |key: &str| {
        let line = ran.stdout.lines().find(|l| l.starts_with(key)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>()
    };
    assert_eq!(row("worker.lease "), ["77s", "flag"]);
    assert_eq!(row("worker.concurrency"), ["5", "file"]);
    assert_eq!(row("hooks.path_token"), ["[secret]", "HOOK_PATH_TOKEN"]);
    assert!(ran.stdout.contains("warning: effects: "), "{}", ran.stdout);

    let document = place.json(&["check"]);
    assert_eq!(document["ok"], true);
    assert_eq!(document["effective"]["admin.token"]["value"], "[secret]");
    let made = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(made, 1, "only the configuration lies there");
}

#[test]
fn usage_errors_are_two_and_repeat_no_value() {
    let place = Place::new();
    let code = |arguments: &[&str]| place.run(arguments).code;
    assert_eq!(code(&["no-such-command"]), 2);
    assert_eq!(code(&["operations", "list", "--state", "no-such"]), 2);
    assert_eq!(code(&["operations", "show", "not a name"]), 2);
    assert_eq!(code(&["--version"]), 0);
    assert_eq!(code(&["operations", "--help"]), 0);
    let told = place.refused(2, &["--set", "canary-typo", "check"]);
    assert!(!told.contains("canary-typo"), "{told}");
    let told = place.refused(2, &["simulate", "--webhook-url", "canary-typo"]);
    assert!(!told.contains("canary-typo"), "{told}");
}

#[test]
fn fresh_secrets_differ_and_pass_the_checks() {
    let mut place = Place::bare();
    let fresh = |arguments: &[&str]| {
        let Ran { code, stdout, .. } = place.run(arguments);
        assert_eq!(code, 0);
        stdout.trim().to_owned()
    };
    let (a, b) = (fresh(&["secret", "new"]), fresh(&["secret", "new"]));
    assert_ne!(a, b);
    assert!(
        a.bytes()
            .all(|c| c.is_ascii_alphanumeric() || b"_-".contains(&c))
    );
    let signing = fresh(&["secret", "new", "--whsec"]);
    assert!(signing.starts_with("whsec_"));
    place.set("HOOK_PATH_TOKEN", &a);
    place.set("HOOK_SHARED_SECRET", &b);
    place.set("GEMINI_WEBHOOK_SECRETS", &signing);
    assert_eq!(place.json(&["check"])["ok"], Value::from(true));
}
