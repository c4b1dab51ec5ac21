//! `backup`: where it writes, what it leaves alone, what it removes.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;

use super::Place;

#[tokio::test]
async fn a_backup_is_a_whole_ledger_and_takes_nobody_s_place() {
    let place = Place::bare().with_ledger();
    place
        .sql("INSERT INTO operation_log (operation_id, at_ms, what, cause) VALUES ('o', 1, 'x', 'y')")
        .await;
    let made = place.json(&["backup", "copy.db"]);
    assert_eq!(made["file"], "copy.db");
    let copy = place.path().join("copy.db");
    assert_eq!(made["bytes"], std::fs::metadata(&copy).unwrap().len());
    let before = std::fs::read(&copy).unwrap();
    let text = place.refused(4, &["backup", "copy.db"]);
    assert!(text.contains("copy.db exists"), "{text}");
    assert_eq!(std::fs::read(&copy).unwrap(), before);
    place.json(&["backup", "copy.db", "--overwrite"]);
    for itself in ["webhook.db", "./webhook.db.lock"] {
        let text = place.refused(2, &["backup", itself, "--overwrite"]);
        assert!(text.contains("belongs to the ledger itself"), "{text}");
    }
    let lists = ["--set", "store.path=copy.db", "operations", "list"];
    assert_eq!(place.json(&lists)["operations"], serde_json::json!([]));
    let permissions = std::fs::metadata(&copy).unwrap().permissions();
    assert_eq!(
        permissions.mode() & 0o777,
        0o600,
        "bodies are nobody else's"
    );
}

#[test]
fn of_dated_backups_the_newest_are_kept_and_no_other_file_is_touched() {
    let mut place = Place::bare().with_ledger();
    let directory = place.path().join("backups");
    std::fs::create_dir(&directory).unwrap();
    let old = [
        "hookledger-20260101T000000Z.db",
        "hookledger-20260102T000000Z.db",
        "hookledger-20260103T000000Z.db",
    ];
    let foreign = ["hookledger.db", "hookledger-mine.db", "notes.txt"];
    let remains = "hookledger-20260104T000000Z.db.tmp";
    for name in old.iter().chain(&foreign).chain([&remains]) {
        std::fs::write(directory.join(name), name).unwrap();
    }
    place.set("HOOKLEDGER__STORE__BACKUP_DIRECTORY", "backups");
    let made = place.json(&["backup", "--keep", "2"]);
    let removed = made["removed"].as_array().unwrap();
    assert_eq!(removed.len(), 2, "{made}");
    let has = |name: &str| directory.join(name).exists();
    assert_eq!(old.map(has), [false, false, true]);
    assert!(foreign.iter().all(|name| has(name)));
    assert!(!has(remains), "what was cut off stays");
    assert!(place.path().join(made["file"].as_str().unwrap()).exists());
}

#[test]
fn no_file_of_anybody_s_is_emptied_for_what_a_backup_is_made_in() {
    let mut place = Place::bare().with_ledger();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("theirs"), "theirs").unwrap();
    std::os::unix::fs::symlink(at("theirs"), at("copy.db.tmp")).unwrap();
    place.refused(1, &["backup", "copy.db"]);
    assert_eq!(std::fs::read_to_string(at("theirs")).unwrap(), "theirs");
    // A ledger may be called what a copy is called until it is whole.
    let ledger = at("other.tmp");
    std::fs::rename(at("webhook.db"), &ledger).unwrap();
    let before = std::fs::read(&ledger).unwrap();
    place.set("HOOK_DB", "other.tmp");
    let text = place.refused(2, &["backup", "other"]);
    assert!(text.contains("belongs to the ledger itself"), "{text}");
    assert_eq!(std::fs::read(&ledger).unwrap(), before);
}

#[test]
fn a_backup_in_progress_is_not_disturbed() {
    let place = Place::bare().with_ledger();
    let other = File::create(place.path().join("copy.db.tmp")).unwrap();
    other.try_lock().unwrap();
    let text = place.refused(4, &["backup", "copy.db"]);
    assert!(text.contains("another backup is being written"), "{text}");
    drop(other);
    std::fs::write(place.path().join("copy.db.tmp"), "half a backup").unwrap();
    place.json(&["backup", "copy.db"]);
    assert!(!place.path().join("copy.db.tmp").exists());
}

#[tokio::test]
async fn what_cannot_be_backed_up_is_named() {
    let place = Place::bare();
    let text = place.refused(2, &["backup"]);
    assert!(text.contains("store.backup_directory"), "{text}");
    let text = place.refused(2, &["backup", "copy.db", "--keep", "3"]);
    assert!(text.contains("is no directory"), "{text}");
    let text = place.refused(2, &["backup", "copy.db"]);
    assert!(text.contains("webhook.db does not exist"), "{text}");
    File::create(place.path().join("webhook.db")).unwrap();
    place.sql("CREATE TABLE somebody_elses (x)").await;
    let text = place.refused(1, &["backup", "copy.db"]);
    assert!(text.contains("is no ledger"), "{text}");
    std::fs::write(
        place.path().join("webhook.db"),
        "not a database ".repeat(99),
    )
    .unwrap();
    let text = place.refused(1, &["backup", "copy.db"]);
    assert!(text.contains("damaged"), "{text}");
    assert!(!place.path().join("copy.db").exists());
}

#[test]
fn a_damaged_ledger_names_the_newest_backup() {
    let mut place = Place::new().with_ledger();
    std::fs::create_dir(place.path().join("backups")).unwrap();
    place.set("HOOKLEDGER__STORE__BACKUP_DIRECTORY", "backups");
    let made = place.json(&["backup"]);
    std::fs::write(
        place.path().join("webhook.db"),
        "not a database ".repeat(99),
    )
    .unwrap();
    let ran = place.run(&["serve"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let last = ran.stderr.lines().last().unwrap_or_default();
    let name = made["file"].as_str().unwrap();
    assert!(last.contains("is damaged"), "{last}");
    assert!(
        last.contains(&format!("`hookledger restore {name}`")),
        "{last}"
    );
}
