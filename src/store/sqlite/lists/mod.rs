//! Lists for people: newest first, filtered by anything, a page at a time.
//!
//! Problem: there are more combinations of filters than indexes anyone wants to pay for with every
//! delivery, and a filter that matches one row of a million must not read the million.
//!
//! Design: a list is a walk down the ids, along the narrowest index that its filters have. What the
//! index does not serve is judged row by row, and then a page looks at most at [`REACH`] rows: it may
//! be short, even empty, and still say where to go on. So each page is bounded, whatever the filters,
//! and a walk of all pages misses nothing. Pages go on below the last id, so a page costs the same at
//! any depth. Beginnings of names are looked up in their own index first; up to [`FEW`] hits are
//! taken as they are, more are dense enough to be met on the way.
//!
//! Which index is followed is written into each statement, and a unary plus keeps every other
//! condition from being taken for one: the planner's choice would change with the file's statistics.
//!
//! Race: rows come and go between pages. A new one is above the cursor; one that changes so that it
//! fits, or does not, is shown as it is when its page is read.

mod effects;
mod events;
mod operations;
mod prefix;
mod work;

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqlitePool};

pub use effects::EffectFilter;
pub use events::EventFilter;
pub use operations::OperationFilter;
pub use work::WorkFilter;

use super::super::error::StoreError;
use crate::base::clock::Timestamp;

/// Rows that one page looks at, at most, when some are judged one by one.
const REACH: u32 = 5000;
/// Hits of a prefix that are taken as they are.
const FEW: u32 = 1000;

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The rows. Fewer than asked for do not mean the end.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
}

/// A piece of a statement.
#[derive(Debug, Clone)]
enum Piece {
    Sql(&'static str),
    Text(String),
    Number(i64),
}
use Piece::{Number, Sql, Text};

/// A walk down the ids of one table.
#[derive(Debug, Clone)]
struct Walk {
    /// `FROM …`, with the index to follow.
    from: Vec<Piece>,
    /// The id's column.
    key: &'static str,
    below: Piece,
    /// From this id on, itself included.
    from_id: Option<Piece>,
    /// Conditions that the index serves, each with its ` AND `.
    followed: Vec<Piece>,
    /// Conditions that each row is judged by.
    judged: Vec<Piece>,
}

impl Walk {
    /// Where the walk may end: the id [`REACH`] rows down.
    fn floor(&self) -> QueryBuilder<Sqlite> {
        let mut query = QueryBuilder::new("SELECT");
        query.push(" ").push(self.key);
        self.range(&mut query, self.from_id.as_ref());
        query.push(" ORDER BY ").push(self.key);
        query
            .push(" DESC LIMIT 1 OFFSET ")
            .push_bind(i64::from(REACH));
        query
    }

    /// The page itself, down to `floor`.
    fn page(
        &self,
        columns: &'static str,
        floor: Option<&Piece>,
        limit: u32,
    ) -> QueryBuilder<Sqlite> {
        let mut query = QueryBuilder::new(columns);
        self.range(&mut query, floor.or(self.from_id.as_ref()));
        add(&mut query, &self.judged);
        query.push(" ORDER BY ").push(self.key);
        query.push(" DESC LIMIT ").push_bind(i64::from(limit) + 1);
        query
    }

    fn range(&self, query: &mut QueryBuilder<Sqlite>, from_id: Option<&Piece>) {
        query.push(" FROM ");
        add(query, &self.from);
        query.push(" WHERE ").push(self.key).push(" < ");
        add(query, std::slice::from_ref(&self.below));
        if let Some(id) = from_id {
            query.push(" AND ").push(self.key).push(" >= ");
            add(query, std::slice::from_ref(id));
        }
        add(query, &self.followed);
    }

    /// Reads one page. `id` reads a row's id as a cursor.
    async fn read<T>(
        &self,
        pool: &SqlitePool,
        columns: &'static str,
        limit: u32,
        row: impl Fn(&SqliteRow) -> Result<T, StoreError>,
        id: impl Fn(&T) -> String,
    ) -> Result<Page<T>, StoreError> {
        let floor = if self.judged.is_empty() {
            None
        } else {
            self.read_floor(pool).await?
        };
        let mut query = self.page(columns, floor.as_ref(), limit);
        let rows = query.build().fetch_all(pool).await?;
        let mut items = rows.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let next_cursor = if items.len() > wanted {
            items.truncate(wanted);
            items.last().map(id)
        } else {
            // Down to the floor all was looked at, itself included.
            floor.map(|floor| match floor {
                Number(id) => id.to_string(),
                Text(id) => id,
                Sql(text) => text.to_owned(),
            })
        };
        Ok(Page { items, next_cursor })
    }

    async fn read_floor(&self, pool: &SqlitePool) -> Result<Option<Piece>, StoreError> {
        let mut query = self.floor();
        Ok(if matches!(self.below, Number(_)) {
            let floor: Option<i64> = query.build_query_scalar().fetch_optional(pool).await?;
            floor.map(Number)
        } else {
            let floor: Option<String> = query.build_query_scalar().fetch_optional(pool).await?;
            floor.map(Text)
        })
    }
}

fn add(query: &mut QueryBuilder<Sqlite>, pieces: &[Piece]) {
    for piece in pieces {
        match piece {
            Sql(text) => query.push(*text),
            Text(text) => query.push_bind(text.clone()),
            Number(number) => query.push_bind(*number),
        };
    }
}

fn word(text: &str) -> Piece {
    Text(text.to_owned())
}

/// Below this id: a page's cursor, and not made at `until` or later.
fn below(cursor: Option<uuid::Uuid>, until: Option<Timestamp>) -> Piece {
    let cursor = cursor.map(|id| id.to_string());
    let until = until.map(first_id);
    Text(match (cursor, until) {
        (Some(cursor), Some(until)) => cursor.min(until),
        // Behind every id.
        (cursor, until) => cursor.or(until).unwrap_or_else(|| "~".to_owned()),
    })
}

/// What sorts before every id made at `at`, and behind those made earlier.
pub(super) fn first_id(at: Timestamp) -> String {
    let ms = at.as_millis().clamp(0, 0xffff_ffff_ffff);
    let mut id = format!("{ms:012x}");
    id.insert(8, '-');
    id
}

#[cfg(test)]
mod tests;
