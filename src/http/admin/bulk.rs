//! Bulk recovery: one page of what fits is replayed, or put back, in each call.
//!
//! A call is bounded and answers at once, with counts and where to go on; `dry_run` only counts.

use axum::Json;
use serde::Serialize;

use super::input;
use super::refusal::Refusal;
use crate::domain::recovered::Recovered;

/// Most, and usual, size of a page: a replay holds bodies, a transaction others up.
const MAX_LIMIT: u32 = 500;
const DEFAULT_LIMIT: u32 = 100;

/// What every bulk request may say about its page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paging<'a> {
    pub(super) cursor: Option<&'a str>,
    pub(super) limit: Option<u32>,
}

impl Paging<'_> {
    pub(super) fn cursor<T: std::str::FromStr>(self) -> Result<Option<T>, Refusal> {
        input::cursor(self.cursor)
    }

    pub(super) fn limit(self) -> Result<u32, Refusal> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if (1..=MAX_LIMIT).contains(&limit) {
            return Ok(limit);
        }
        Err(Refusal::bad_request(format!(
            "limit must be a number from 1 to {MAX_LIMIT}."
        )))
    }
}

/// What became of the page.
#[derive(Debug, Serialize)]
pub(super) struct BulkAnswer {
    dry_run: bool,
    matched: u64,
    done: u64,
    skipped: u64,
    next_cursor: Option<String>,
}

impl BulkAnswer {
    pub(super) fn new(page: Recovered, dry_run: bool) -> Json<Self> {
        Json(Self {
            dry_run,
            matched: page.matched,
            done: page.done,
            skipped: page.skipped(dry_run),
            next_cursor: page.next_cursor,
        })
    }
}
