//! The questions behind `Reader::audit`.
//!
//! Each is one query that finds the rows which break a promise, so an empty answer is the good one.
//! They read the whole ledger and are for people and tests, not for a timer. A file that is damaged
//! is not asked anything else: what it would answer is worth nothing.

use std::path::Path;

use sqlx::{SqliteConnection, SqlitePool};

use super::super::error::StoreError;
use super::super::{Bounds, Reader, Violation};
use super::sweep::NEVER_LATER;

/// Rows told of one question; a broken file breaks in thousands of places.
const SHOWN: usize = 20;
/// What the log is cut back to after a checkpoint; only a reader that stays keeps it longer.
const WAL_LIMIT: u64 = 16 << 20;
const RESTORE: &str =
    "restore the last backup, and start the service: what is open is looked at again";
const REPORT: &str = "this is a defect of hookledger: keep a copy of the file and report it";

/// A question: which promise it is about, and what to do when it finds something. The query answers
/// pairs of place and fault.
struct Question {
    invariant: &'static str,
    remedy: &'static str,
    query: &'static str,
}

/// The bounds, as columns of a table `b`.
macro_rules! with_bounds {
    ($query:literal) => {
        concat!(
            "WITH b (now, dedupe_ttl, items_kept, max_attempts, never) AS (SELECT ?1, ?2, ?3, ?4, ?5) ",
            $query,
            " LIMIT 21"
        )
    };
}

macro_rules! settled_states {
    () => {
        "('succeeded', 'failed', 'cancelled', 'expired', 'filtered', 'incomplete', 'budget_exceeded')"
    };
}

macro_rules! with_bounds_and_states {
    ($before:literal, $after:literal) => {
        concat!(
            "WITH b (now, dedupe_ttl, items_kept, max_attempts, never) AS (SELECT ?1, ?2, ?3, ?4, ?5) ",
            $before,
            settled_states!(),
            $after,
            " LIMIT 21"
        )
    };
}

const ALWAYS: &[Question] = &[
    Question {
        invariant: "I1",
        remedy: "`hookledger events replay ID`, and report it: this is a defect",
        // A fold may have left the item under the other form of the name.
        query: with_bounds!(
            "SELECT 'captured_events row ' || e.id, 'accepted, and neither a work item nor an operation knows of it' \
             FROM captured_events e, b WHERE e.verdict = 'accepted' AND e.segment IS NOT NULL \
             AND e.received_at_ms > b.now - b.items_kept \
             AND e.segment NOT IN (SELECT segment FROM work_queue) \
             AND e.segment NOT IN (SELECT segment FROM operations WHERE segment IS NOT NULL) \
             AND NOT (e.segment LIKE 'batch\\_%' ESCAPE '\\' AND substr(e.segment, 7) IN \
                 (SELECT segment FROM operations WHERE segment IS NOT NULL UNION ALL SELECT segment FROM work_queue))"
        ),
    },
    Question {
        invariant: "I2",
        remedy: "no harm: one settlement and one key for each effect hold all the same; report it unless hooks.dedupe_ttl was raised lately",
        query: with_bounds!(
            "SELECT 'captured_events row ' || id, 'a redelivery of ' || earlier || ' was stored as new' FROM ( \
                 SELECT id, received_at_ms, lag(id) OVER same AS earlier, lag(received_at_ms) OVER same AS earlier_ms \
                 FROM captured_events WHERE dedupe_key IS NOT NULL AND replay_of IS NULL \
                 WINDOW same AS (PARTITION BY source, dedupe_key ORDER BY received_at_ms, id)), b \
             WHERE received_at_ms < earlier_ms + b.dedupe_ttl"
        ),
    },
    Question {
        invariant: "I2",
        remedy: "a redelivery of it would be stored again, which does no harm; report it unless hooks.dedupe_ttl was raised lately",
        query: with_bounds!(
            "SELECT 'captured_events row ' || e.id, 'its dedupe row is missing' FROM captured_events e, b \
             WHERE e.dedupe_key IS NOT NULL AND e.replay_of IS NULL \
             AND e.received_at_ms > b.now - b.dedupe_ttl AND e.received_at_ms <= b.now \
             AND NOT EXISTS (SELECT 1 FROM processed_events p WHERE p.source = e.source AND p.dedupe_key = e.dedupe_key)"
        ),
    },
    Question {
        invariant: "I3",
        remedy: RESTORE,
        query: with_bounds_and_states!(
            "SELECT 'operations row ' || operation_id, 'settled ' || count(*) || ' times: ' || group_concat(what, ', ') \
             FROM operation_log WHERE what IN ",
            " GROUP BY operation_id HAVING count(*) > 1"
        ),
    },
    Question {
        invariant: "I3",
        remedy: RESTORE,
        query: with_bounds_and_states!(
            "SELECT 'operations row ' || o.id, 'its history says ' || l.what || ', its state is ' || o.state \
             FROM operation_log l JOIN operations o ON o.id = l.operation_id WHERE l.what <> o.state AND l.what IN ",
            ""
        ),
    },
    Question {
        invariant: "I3",
        remedy: RESTORE,
        query: with_bounds!(
            "SELECT 'operations row ' || o.id, 'is ' || o.state || ', and its history does not say so' FROM operations o \
             WHERE o.settled_at_ms IS NOT NULL AND NOT EXISTS \
             (SELECT 1 FROM operation_log l WHERE l.operation_id = o.id AND l.what = o.state)"
        ),
    },
    Question {
        invariant: "I3",
        remedy: "somebody changed the schema: restore the last backup",
        query: with_bounds!(
            "SELECT 'trigger ' || column1, 'is missing: a settled operation could change' \
             FROM (VALUES ('operations_settled_once'), ('operations_settled_stays')) \
             WHERE column1 NOT IN (SELECT name FROM sqlite_schema WHERE type = 'trigger')"
        ),
    },
    Question {
        invariant: "I4",
        remedy: "start the service: it plans them within one reconcile.interval, with the same keys",
        query: with_bounds!(
            "SELECT 'operations row ' || o.id, coalesce('expects ' || o.effects_expected, 'was never asked for its') \
             || ' effects and has ' || (SELECT count(*) FROM effects e WHERE e.operation_id = o.id) \
             FROM operations o WHERE o.settled_at_ms IS NOT NULL AND coalesce(o.effects_expected > \
             (SELECT count(*) FROM effects e WHERE e.operation_id = o.id), 1)"
        ),
    },
    Question {
        invariant: "I4",
        remedy: REPORT,
        query: with_bounds!(
            "SELECT 'operations row ' || operation_id, 'effect ' || effect || ' is planned ' || count(*) || ' times for ' || cause \
             FROM effects WHERE operation_id IS NOT NULL GROUP BY operation_id, effect, cause HAVING count(*) > 1"
        ),
    },
    Question {
        invariant: "I4",
        remedy: REPORT,
        query: with_bounds_and_states!(
            "SELECT 'effects row ' || e.id, 'acts on ' || e.cause || ', and its operation is ' || o.state \
             FROM effects e JOIN operations o ON o.id = e.operation_id WHERE e.cause <> o.state AND e.cause IN ",
            ""
        ),
    },
    Question {
        invariant: "I8",
        remedy: "start the service: it is buried at its next failure; `hookledger queue retry ID` after that",
        query: with_bounds!(
            "SELECT 'work_queue row ' || id, 'charged ' || attempts || ' times and not dead' FROM work_queue, b \
             WHERE state <> 'done' AND state IN ('ready', 'leased') AND attempts > b.max_attempts"
        ),
    },
    Question {
        invariant: "I8",
        remedy: "the clock was set back: start the service, it takes them as due",
        query: with_bounds!(
            "SELECT 'work_queue row ' || id, 'is not due before ' || available_at_ms || ' ms' FROM work_queue, b \
             WHERE state = 'ready' AND available_at_ms > b.now + b.never \
             UNION ALL SELECT 'effects row ' || id, 'is not due before ' || next_attempt_at_ms || ' ms' FROM effects, b \
             WHERE state IN ('planned', 'ambiguous') AND next_attempt_at_ms > b.now + b.never \
             UNION ALL SELECT 'operations row ' || id, 'is not looked at before ' || next_check_at_ms || ' ms' FROM operations, b \
             WHERE next_check_at_ms > b.now + b.never"
        ),
    },
    Question {
        invariant: "I8",
        remedy: "stop the service and start it: every lease is void then",
        query: with_bounds!(
            "SELECT 'work_queue row ' || id, 'is leased under epoch ' || lease_epoch FROM work_queue \
             WHERE state = 'leased' AND lease_epoch < 1 \
             UNION ALL SELECT 'effects row ' || id, 'was sent ' || attempts || ' times under ' || lease_epoch || ' epochs' \
             FROM effects WHERE lease_epoch < attempts"
        ),
    },
    Question {
        invariant: "I9",
        remedy: RESTORE,
        query: with_bounds!(
            "SELECT f.\"table\" || ' row ' || f.rowid, 'refers to a row of ' || f.parent || ' that is not there' \
             FROM pragma_foreign_key_check f"
        ),
    },
];

/// I7, only where there was time enough.
const DRAINED: &[Question] = &[Question {
    invariant: "I7",
    remedy: "see `hookledger health`: a loop does not turn",
    query: with_bounds!(
        "SELECT 'work_queue row ' || id, 'is still ' || state || ': ' || ref_key FROM work_queue, b \
         WHERE state = 'leased' OR (state = 'ready' AND available_at_ms <= b.now) \
         UNION ALL SELECT 'effects row ' || id, 'is still ' || state || ': ' || effect FROM effects, b \
         WHERE state = 'sending' OR (state IN ('planned', 'ambiguous') AND next_attempt_at_ms <= b.now)"
    ),
}];

impl Reader {
    /// What is wrong with the properties that the file was made with and no start repairs.
    ///
    /// # Errors
    /// The file could not be read.
    pub async fn form(&self) -> Result<Vec<String>, StoreError> {
        let vacuum: i64 = sqlx::query_scalar("PRAGMA auto_vacuum")
            .fetch_one(&self.pool)
            .await?;
        let shrinks = vacuum == 2;
        let wrong = "auto_vacuum is not incremental: the file never shrinks";
        Ok((!shrinks).then(|| wrong.to_owned()).into_iter().collect())
    }

    /// Every promise that the file breaks; none is the good answer. Reads all of it.
    ///
    /// # Errors
    /// The file could not be read. One that is damaged is an answer, not an error.
    pub async fn audit(&self, bounds: &Bounds) -> Result<Vec<Violation>, StoreError> {
        // Before anything is read: a long look at a large file, beside a busy service, keeps the log
        // from being emptied, and would find itself.
        let log = long_log(&self.path);
        let mut found = damage(&self.pool).await?;
        if found.is_empty() {
            let mut reader = self.pool.acquire().await?;
            let drained = if bounds.drained { DRAINED } else { &[] };
            for question in ALWAYS.iter().chain(drained) {
                ask(&mut reader, question, bounds, &mut found).await?;
            }
        }
        found.extend(log);
        Ok(found)
    }
}

/// I9: SQLite's own look at its pages and its indexes.
async fn damage(pool: &SqlitePool) -> Result<Vec<Violation>, StoreError> {
    let report: Result<Vec<String>, _> = sqlx::query_scalar("PRAGMA integrity_check(20)")
        .fetch_all(pool)
        .await;
    let lines = match report.map_err(StoreError::from) {
        Ok(lines) => lines,
        Err(StoreError::Broken(why)) => vec![why],
        Err(error) => return Err(error),
    };
    let broken = lines.into_iter().filter(|line| line != "ok");
    Ok(broken
        .map(|what| Violation {
            invariant: "I9",
            place: "database file".to_owned(),
            what,
            remedy: RESTORE,
        })
        .collect())
}

async fn ask(
    reader: &mut SqliteConnection,
    question: &Question,
    bounds: &Bounds,
    found: &mut Vec<Violation>,
) -> Result<(), StoreError> {
    let ms = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let rows: Vec<(String, String)> = sqlx::query_as(question.query)
        .bind(bounds.now.as_millis())
        .bind(ms(bounds.dedupe_ttl))
        .bind(ms(bounds.items_kept))
        .bind(bounds.max_attempts)
        .bind(ms(NEVER_LATER.max(bounds.longest_pause * 2)))
        .fetch_all(reader)
        .await?;
    let more = rows.len() > SHOWN;
    let violation = |(place, what)| Violation {
        invariant: question.invariant,
        place,
        what,
        remedy: question.remedy,
    };
    found.extend(rows.into_iter().take(SHOWN).map(violation));
    if more {
        let rest = ("and more".to_owned(), "the list ends here".to_owned());
        found.push(violation(rest));
    }
    Ok(())
}

/// I10: the write-ahead log, by its size.
fn long_log(path: &Path) -> Option<Violation> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let bytes = std::fs::metadata(Path::new(&wal)).map_or(0, |file| file.len());
    (bytes > WAL_LIMIT).then(|| Violation {
        invariant: "I10",
        place: "write-ahead log".to_owned(),
        what: format!("is {} MiB long", bytes >> 20),
        remedy: "something has kept the file open for reading (a backup, a shell): end it, or restart the service",
    })
}
