//! `doctor`: well or not, in both forms, and never a change to the file.

use serde_json::Value;

use super::Place;

fn check<'a>(document: &'a Value, name: &str) -> &'a Value {
    let checks = document["checks"].as_array().unwrap();
    checks.iter().find(|c| c["check"] == name).unwrap()
}

#[test]
fn a_good_installation_is_well() {
    let mut place = Place::new().with_ledger();
    place.set("HOOKLEDGER__STORE__MIN_FREE_DISK", "1MiB");
    let document = place.json(&["doctor"]);
    assert_eq!(document["well"], true, "{document:#}");
    for name in ["configuration", "disk", "file", "ledger"] {
        assert_eq!(check(&document, name)["state"], "well", "{document:#}");
    }
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 4, "{}", ran.stdout);
    assert!(
        ran.stdout.lines().all(|l| l.contains("  well")),
        "{}",
        ran.stdout
    );
}

#[tokio::test]
async fn a_broken_promise_is_a_line_that_says_where_and_what_to_do() {
    let mut place = Place::new().with_ledger();
    place.set("HOOKLEDGER__STORE__MIN_FREE_DISK", "1MiB");
    place.sql("DROP TRIGGER operations_settled_once").await;
    let ran = place.run(&["doctor"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let line = "  I3 trigger operations_settled_once: is missing: a settled operation could change; \
                somebody changed the schema: restore the last backup";
    assert!(ran.stdout.lines().any(|l| l == line), "{}", ran.stdout);
    let ran = place.run(&["--json", "doctor"]);
    assert_eq!(ran.code, 1);
    let document = ran.json();
    let ledger = check(&document, "ledger");
    assert_eq!(
        (&document["well"], &ledger["state"]),
        (&false.into(), &"ill".into())
    );
    assert_eq!(ledger["findings"][0]["invariant"], "I3");
    assert_eq!(check(&document, "file")["state"], "well");
}

#[test]
fn each_check_tells_its_own_trouble() {
    let mut place = Place::bare().with_ledger();
    place.set("HOOKLEDGER__STORE__MIN_FREE_DISK", "1000TiB");
    let ran = place.run(&["--json", "doctor"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let document = ran.json();
    let configuration = check(&document, "configuration");
    let missing = configuration["findings"].as_array().unwrap();
    assert!(
        missing.iter().any(|f| f["place"] == "hooks.path_token"),
        "{document:#}"
    );
    let disk = check(&document, "disk")["findings"][0]["what"].to_string();
    assert!(disk.contains("store.min_free_disk is"), "{disk}");
    assert_eq!(check(&document, "ledger")["state"], "well");

    let empty = Place::new();
    let document = empty.run(&["--json", "doctor"]).json();
    let file = check(&document, "file")["findings"][0]["what"].to_string();
    assert!(file.contains("does not exist"), "{file}");
    assert_eq!(check(&document, "ledger")["state"], "skipped");
    assert!(!empty.path().join("webhook.db").exists(), "nothing is made");

    let unreadable = empty
        .run(&["--json", "--set", "store.path=", "doctor"])
        .json();
    assert_eq!(
        check(&unreadable, "configuration")["state"],
        "ill",
        "{unreadable:#}"
    );
}
