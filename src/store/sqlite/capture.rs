//! New deliveries, captured as a set by one trip to SQLite's thread.
//!
//! Problem: sqlx crosses a thread for every statement, so a statement per row would cap the receive
//! rate. Rows that travel as one JSON document need only one trip, but then SQLite spends a third of its
//! instructions on taking the document apart.
//!
//! Design: three statements go together (dedupe rows, events, work items), and each has a row of
//! parameters for every delivery of the set. They are written for a few numbers of rows ([`WIDTHS`]) and
//! stay prepared; a set takes the next width, and what it does not fill is NULL and left out. The
//! parameters have no numbers: SQLite keeps a numbered one in a list that sqlx would search for each.
//!
//! Races: none of its own; the writer is alone.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments as _, Encode, Sqlite, SqliteConnection, Type};

use super::super::NewDelivery;
use super::commit::MAX_GROUP;
use crate::domain::event::Verdict;
use crate::domain::operation::{Kind, OperationRef};

/// Most bytes of headers and bodies in one trip: SQLite copies them once more.
const MAX_BYTES: usize = 4 << 20;

/// How many rows the statements are written for. The steps are small, so that little is left unfilled,
/// and few, so that all of them stay in the connection's cache of prepared statements.
const WIDTHS: [usize; 16] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, MAX_GROUP,
];

const DEDUPE_ROWS: &str = "
    INSERT INTO processed_events (source, dedupe_key, event_id, received_at_ms, outcome, expires_at_ms)
    SELECT column1, column2, column3, column4, column5, column6
    FROM (VALUES (?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL";

const EVENTS: &str = "
    INSERT INTO captured_events (id, source, received_at_ms, verdict, why, event_type, operation, segment,
                                 webhook_id, dedupe_key, proof, reservation, replay_of, user_metadata, headers, body)
    SELECT column1, column2, column3, column4, column5, column6, column7, column8,
           column9, column10, column11, column12, column13, column14, column15, column16
    FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL";

// A full name is its own key, whoever else in the ledger ends in the same segment; only a short id is
// looked up there.
const WORK_ITEMS: &str = "
    INSERT INTO work_queue (ref_key, raw, segment, kind_hint, reservation, event_id, reason, fresh,
                            state, created_at_ms, available_at_ms)
    SELECT iif(instr(column1, '/'), column1,
               coalesce((SELECT max(o.name) FROM operations o WHERE o.segment = column2 HAVING count(*) = 1), column1)),
           column1, column2, column3, column4, column5, column6, 1, 'ready', column7, column7
    FROM (VALUES (?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL
    ON CONFLICT (ref_key) WHERE state = 'ready' DO UPDATE SET
        available_at_ms = min(available_at_ms, excluded.available_at_ms),
        reason = excluded.reason, fresh = 1, event_id = excluded.event_id,
        kind_hint = coalesce(kind_hint, excluded.kind_hint),
        reservation = coalesce(reservation, excluded.reservation)";

/// The statements of each width: with dedupe rows, and without.
static STATEMENTS: LazyLock<[(String, String); WIDTHS.len()]> = LazyLock::new(|| {
    WIDTHS.map(|width| {
        let [dedupe, events, items] =
            [DEDUPE_ROWS, EVENTS, WORK_ITEMS].map(|one| widened(one, width));
        (
            format!("{dedupe};{events};{items}"),
            format!("{events};{items}"),
        )
    })
});

/// A statement for one row of parameters, written for `width` of them.
fn widened(statement: &str, width: usize) -> String {
    let (start, rest) = statement.split_once("(VALUES ").unwrap_or((statement, ""));
    let (row, end) = rest.split_once("))").unwrap_or((rest, ""));
    let rows = vec![format!("{row})"); width].join(", ");
    format!("{start}(VALUES {rows}){end}")
}

/// Who writes the dedupe rows of captured deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Their capture, which fails on one that is there.
    New,
    /// Somebody did before.
    Decided,
}

/// Captures new deliveries, and queues those that name an operation; one that waits for it already is
/// pulled forward.
pub(super) async fn capture(
    connection: &mut SqliteConnection,
    new: &[&NewDelivery],
    keys: Keys,
) -> Result<(), sqlx::Error> {
    let mut rest = new;
    while !rest.is_empty() {
        let (set, later) = rest.split_at(fitting(rest));
        rest = later;
        let slot = WIDTHS.partition_point(|width| *width < set.len());
        let (Some(width), Some((with_keys, without))) = (WIDTHS.get(slot), STATEMENTS.get(slot))
        else {
            return Err(sqlx::Error::Protocol("a set is too wide".to_owned()));
        };
        let (statement, mut rows) = match keys {
            Keys::New => (with_keys, Rows::of(*width, 6 + 16 + 7)),
            Keys::Decided => (without, Rows::of(*width, 16 + 7)),
        };
        let shared = shared(set);
        if keys == Keys::New {
            rows.dedupe(set, &shared)?;
        }
        rows.events(set, &shared)?;
        rows.items(set, &shared)?;
        sqlx::query_with(statement.as_str(), rows.arguments)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// How many of `waiting`, which is not empty, fit into one trip.
fn fitting(waiting: &[&NewDelivery]) -> usize {
    let mut bytes = 0;
    let full = waiting.iter().position(|delivery| {
        let before = bytes;
        bytes += delivery.bytes();
        before >= MAX_BYTES
    });
    full.unwrap_or(waiting.len()).min(MAX_GROUP)
}

/// What more than one row says of a delivery, so that it is made once.
struct Shared {
    id: Arc<str>,
    raw: Option<Arc<str>>,
    segment: Option<Arc<str>>,
}

fn shared(set: &[&NewDelivery]) -> Vec<Shared> {
    set.iter()
        .map(|delivery| {
            let operation = delivery.operation.as_ref();
            let mut buffer = uuid::Uuid::encode_buffer();
            Shared {
                id: Arc::from(&*delivery.id.hyphenated().encode_lower(&mut buffer)),
                raw: operation.map(|o| Arc::from(o.raw())),
                segment: operation.map(|o| Arc::from(o.segment())),
            }
        })
        .collect()
}

/// The parameters of a trip.
struct Rows {
    width: usize,
    arguments: SqliteArguments,
}

impl Rows {
    fn of(width: usize, columns: usize) -> Self {
        let mut arguments = SqliteArguments::default();
        arguments.reserve(width * columns, 0);
        Self { width, arguments }
    }

    fn add<'q, T: Encode<'q, Sqlite> + Type<Sqlite>>(
        &mut self,
        value: T,
    ) -> Result<(), sqlx::Error> {
        self.arguments.add(value).map_err(sqlx::Error::Encode)
    }

    /// Leaves what is not filled of a statement's rows to NULL.
    fn fill(&mut self, filled: usize, columns: usize) -> Result<(), sqlx::Error> {
        for _ in 0..(self.width - filled) * columns {
            self.add(None::<i64>)?;
        }
        Ok(())
    }

    fn dedupe(&mut self, set: &[&NewDelivery], shared: &[Shared]) -> Result<(), sqlx::Error> {
        let mut filled = 0;
        for (delivery, shared) in set.iter().zip(shared) {
            let Some(key) = delivery.dedupe_key.as_deref() else {
                continue;
            };
            filled += 1;
            self.add(delivery.source.as_str())?;
            self.add(key)?;
            self.add(Arc::clone(&shared.id))?;
            self.add(delivery.received_at.as_millis())?;
            self.add(delivery.verdict().as_str())?;
            self.add(delivery.dedupe_until.as_millis())?;
        }
        self.fill(filled, 6)
    }

    fn events(&mut self, set: &[&NewDelivery], shared: &[Shared]) -> Result<(), sqlx::Error> {
        for (delivery, shared) in set.iter().zip(shared) {
            self.add(Arc::clone(&shared.id))?;
            self.add(delivery.source.as_str())?;
            self.add(delivery.received_at.as_millis())?;
            self.add(delivery.verdict().as_str())?;
            self.add(delivery.ignored_because)?;
            self.add(delivery.event_type.as_deref())?;
            self.add(shared.raw.clone())?;
            self.add(shared.segment.clone())?;
            self.add(delivery.webhook_id.as_deref())?;
            self.add(delivery.dedupe_key.as_deref())?;
            self.add(delivery.proof.as_str())?;
            self.add(delivery.reservation.map(|id| id.to_string()))?;
            self.add(delivery.replay_of.map(|id| id.to_string()))?;
            self.add(delivery.user_metadata.as_ref().map(Value::to_string))?;
            self.add(delivery.stored_headers().map_err(unwritable)?)?;
            self.add(&*delivery.body)?;
        }
        self.fill(set.len(), 16)
    }

    fn items(&mut self, set: &[&NewDelivery], shared: &[Shared]) -> Result<(), sqlx::Error> {
        let mut filled = 0;
        for (delivery, shared) in set.iter().zip(shared) {
            if delivery.verdict() != Verdict::Accepted {
                continue;
            }
            filled += 1;
            let kind = delivery
                .operation
                .as_ref()
                .and_then(OperationRef::kind_hint);
            self.add(shared.raw.clone())?;
            self.add(shared.segment.clone())?;
            self.add(kind.map(Kind::as_str))?;
            self.add(delivery.reservation.map(|id| id.to_string()))?;
            self.add(Arc::clone(&shared.id))?;
            self.add(delivery.reason().as_str())?;
            self.add(delivery.received_at.as_millis())?;
        }
        self.fill(filled, 7)
    }
}

fn unwritable(error: serde_json::Error) -> sqlx::Error {
    sqlx::Error::Encode(error.into())
}
