//! Each promise can be broken, and the audit says which, where and what to do.

use std::time::Duration;

use hookledger::store::{Bounds, Reader};
use serde_json::json;

use crate::support::sql;
use crate::support::world::{World, succeeded};

const A: &str = "batches/a";

fn bounds(w: &World) -> Bounds {
    Bounds {
        now: w.now(),
        dedupe_ttl: Duration::from_hours(24 * 7),
        items_kept: Duration::from_hours(24 * 7),
        max_attempts: 10,
        longest_pause: Duration::from_mins(30),
        drained: true,
    }
}

/// One delivery, carried to its end.
async fn ended() -> World {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.send().await;
    w
}

async fn audit(w: &World, bounds: &Bounds) -> Vec<String> {
    let reader = Reader::open(&w.dir().path().join("test.db")).await.unwrap();
    let broken = reader.audit(bounds).await.unwrap();
    broken.iter().map(ToString::to_string).collect()
}

/// What somebody with a shell did, and what is said about it.
const BREACHES: &[(&str, &str, &str)] = &[
    (
        "I1",
        "DELETE FROM work_queue; DELETE FROM operations",
        "neither a work item nor an operation",
    ),
    (
        "I2",
        "INSERT INTO captured_events (id, source, received_at_ms, verdict, operation, segment, dedupe_key, proof, headers, body) \
         SELECT 'copy', source, received_at_ms + 1, verdict, operation, segment, dedupe_key, proof, headers, body FROM captured_events",
        "row copy: a redelivery of",
    ),
    (
        "I2",
        "DELETE FROM processed_events",
        "its dedupe row is missing",
    ),
    (
        "I3",
        "INSERT INTO operation_log (operation_id, at_ms, what, cause) \
         SELECT operation_id, at_ms, what, cause FROM operation_log WHERE what = 'succeeded'",
        "settled 2 times: succeeded, succeeded",
    ),
    (
        "I3",
        "INSERT INTO operation_log (operation_id, at_ms, what, cause) \
         SELECT operation_id, at_ms, 'failed', cause FROM operation_log WHERE what = 'succeeded'; \
         DELETE FROM operation_log WHERE what = 'succeeded'",
        "its history says failed, its state is succeeded",
    ),
    (
        "I3",
        "DELETE FROM operation_log",
        "its history does not say so",
    ),
    (
        "I3",
        "DROP TRIGGER operations_settled_stays",
        "trigger operations_settled_stays: is missing",
    ),
    ("I4", "DELETE FROM effects", "expects 1 effects and has 0"),
    (
        "I4",
        "UPDATE operations SET effects_expected = NULL",
        "was never asked for its effects and has 1",
    ),
    (
        "I4",
        "INSERT INTO effects (id, operation_id, effect, cause, idempotency_key, payload, state, planned_at_ms, next_attempt_at_ms, give_up_at_ms) \
         SELECT 'copy', operation_id, effect, cause, 'copy', payload, 'done', planned_at_ms, next_attempt_at_ms, give_up_at_ms FROM effects",
        "effect notify is planned 2 times for succeeded",
    ),
    (
        "I4",
        "UPDATE effects SET cause = 'failed'",
        "acts on failed, and its operation is succeeded",
    ),
    (
        "I7",
        "UPDATE effects SET state = 'sending', lease_until_ms = 1",
        "is still sending: notify",
    ),
    (
        "I7",
        "UPDATE work_queue SET state = 'leased', lease_epoch = 1, lease_until_ms = 1, finished_at_ms = NULL",
        "is still leased: batches/a",
    ),
    (
        "I8",
        "UPDATE work_queue SET state = 'ready', finished_at_ms = NULL, attempts = 11, available_at_ms = available_at_ms + 1",
        "charged 11 times and not dead",
    ),
    (
        "I8",
        "UPDATE work_queue SET state = 'ready', finished_at_ms = NULL, available_at_ms = 4000000000000",
        "is not due before 4000000000000 ms",
    ),
    (
        "I8",
        "UPDATE effects SET state = 'ambiguous', next_attempt_at_ms = 4000000000000",
        "is not due before 4000000000000 ms",
    ),
    (
        "I8",
        "UPDATE operations SET next_check_at_ms = 4000000000000",
        "is not looked at before 4000000000000 ms",
    ),
    (
        "I8",
        "UPDATE effects SET lease_epoch = 0",
        "was sent 1 times under 0 epochs",
    ),
    (
        "I9",
        "PRAGMA foreign_keys = OFF; UPDATE effects SET operation_id = 'nobody'; UPDATE operations SET effects_expected = 0",
        "refers to a row of operations that is not there",
    ),
    (
        "I9",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = \
         'CREATE INDEX operation_log_operation ON operation_log (what, id)' WHERE name = 'operation_log_operation'",
        "missing from index operation_log_operation",
    ),
];

#[tokio::test]
async fn a_file_that_keeps_every_promise_is_found_to() {
    let w = ended().await;
    w.deliver("ping", json!({"type": "webhook.ping"})).await;
    assert_eq!(audit(&w, &bounds(&w)).await, Vec::<String>::new());
}

#[tokio::test]
async fn each_promise_can_be_broken_and_the_line_says_where() {
    for (invariant, breach, told) in BREACHES {
        let w = ended().await;
        sql(w.dir(), breach).await;
        let lines = audit(&w, &bounds(&w)).await;
        assert!(
            lines.iter().any(|line| line.contains(told)),
            "{breach}: {lines:#?}"
        );
        for line in &lines {
            assert!(line.starts_with(invariant), "{breach}: {line}");
            assert!(line.contains("; "), "no remedy: {line}");
        }
    }
}

#[tokio::test]
async fn what_is_still_to_be_done_is_no_breach_of_a_file_that_is_at_work() {
    let w = World::new().await;
    w.tell("m1", A).await;
    let at_work = Bounds {
        drained: false,
        ..bounds(&w)
    };
    assert_eq!(audit(&w, &at_work).await, Vec::<String>::new());
    let lines = audit(&w, &bounds(&w)).await;
    assert!(
        lines[0].starts_with("I7 work_queue row 1: is still ready"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_log_that_is_never_cut_back_is_told() {
    let w = ended().await;
    let bounds = bounds(&w);
    let (dir, _) = w.base.close().await;
    let path = dir.path().join("test.db");
    let log = std::fs::File::create(path.with_extension("db-wal")).unwrap();
    log.set_len(17 << 20).unwrap();
    let broken = Reader::open(&path)
        .await
        .unwrap()
        .audit(&bounds)
        .await
        .unwrap();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!(
        broken[0].to_string().split(';').next(),
        Some("I10 write-ahead log: is 17 MiB long")
    );
}

#[tokio::test]
async fn a_long_list_is_cut_and_says_so() {
    let w = ended().await;
    let many = "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) \
                INSERT INTO operation_log (operation_id, at_ms, what, cause) \
                SELECT o.id, 0, 'failed', 'webhook' FROM operations o, n";
    sql(w.dir(), many).await;
    let lines = audit(&w, &bounds(&w)).await;
    assert!(lines.len() < 30, "{}", lines.len());
    assert!(lines.iter().any(|l| l.contains("the list ends here")));
}
