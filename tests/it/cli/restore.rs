//! `restore`: what it refuses, and that a refusal changes nothing.

use std::fs::File;

use super::Place;

/// Every file of the directory but locks, with its bytes.
fn files(place: &Place) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        // What SQLite makes beside a file that it only reads stays empty.
        .filter(|(name, _)| !name.contains(".lock") && !name.contains(".db-"))
        .map(|(name, path)| (name, std::fs::read(path).unwrap()))
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn what_is_no_backup_of_ours_is_refused_and_the_ledger_stays() {
    let place = Place::bare().with_ledger();
    place.json(&["backup", "good.db"]);
    let good = std::fs::read(place.path().join("good.db")).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(place.path().join(name), bytes).unwrap();
    write("half.db", &good[..good.len() / 2 / 4096 * 4096]);
    write("text.db", &b"not a database ".repeat(99));
    write("empty.db", b"");
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (9999, 'from the future', 1, x'00', 0)";
    place.sql(newer).await;
    std::fs::copy(
        place.path().join("webhook.db"),
        place.path().join("newer.db"),
    )
    .unwrap();
    place
        .sql("DELETE FROM _sqlx_migrations WHERE version = 9999")
        .await;
    let before = files(&place);
    for (code, name, word) in [
        (2, "half.db", "is damaged"),
        (2, "text.db", "is damaged"),
        (1, "empty.db", "is no ledger"),
        (1, "newer.db", "written by a newer hookledger"),
        (2, "missing.db", "missing.db does not exist"),
        (2, "webhook.db", "belongs to the ledger itself"),
    ] {
        let text = place.refused(code, &["restore", name]);
        assert!(text.contains(word) && text.contains(name), "{text}");
        assert!(files(&place) == before, "{name}: something was changed");
    }
}

#[test]
fn a_ledger_in_use_is_not_replaced() {
    let place = Place::bare().with_ledger();
    place.json(&["backup", "good.db"]);
    let other = File::options()
        .write(true)
        .open(place.path().join("webhook.db.lock"))
        .unwrap();
    other.try_lock().unwrap();
    let text = place.refused(4, &["restore", "good.db"]);
    assert!(text.contains("in use by another hookledger"), "{text}");
}

#[tokio::test]
async fn the_old_ledger_is_kept_whole_and_a_damaged_one_with_its_log() {
    let place = Place::bare().with_ledger();
    place.json(&["backup", "good.db"]);
    place
        .sql("INSERT INTO operation_log (operation_id, at_ms, what, cause) VALUES ('o', 1, 'x', 'y')")
        .await;
    let done = place.json(&["restore", "good.db"]);
    let old = place.path().join(done["old_ledger"].as_str().unwrap());
    let rows = |path: &std::path::Path| {
        let bytes = std::fs::read(path).unwrap();
        assert!(bytes.starts_with(b"SQLite format 3"));
        bytes.len()
    };
    assert!(rows(&old) > 0 && rows(&place.path().join("webhook.db")) > 0);
    std::fs::write(
        place.path().join("webhook.db"),
        "not a database ".repeat(99),
    )
    .unwrap();
    std::fs::write(place.path().join("webhook.db-wal"), "its log").unwrap();
    let done = place.json(&["restore", "good.db"]);
    let old = done["old_ledger"].as_str().unwrap();
    let log = std::fs::read_to_string(place.path().join(format!("{old}-wal"))).unwrap();
    assert_eq!(log, "its log");
    assert!(
        !place.path().join("webhook.db-wal").exists(),
        "it would be the new one's"
    );
    assert_eq!(
        place.json(&["operations", "list"])["operations"],
        serde_json::json!([])
    );
}
