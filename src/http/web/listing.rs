//! The frame of a list: its filters, a page of its rows, and the way to the next.
//!
//! The rooms differ in what narrows a list, in how it is read and in what a row says; each brings
//! that. A filter that cannot be leaves the form as it was filled in and says why beside it.

use std::str::FromStr;

use axum::body::Body;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::super::admin::Refusal;
use super::answer::{Refused, page};
use super::filters::{self, Asked};
use super::layout::{Page, Room};
use super::parts::pager;
use super::seat::Seat;
use crate::store::{self, StoreError};

/// Rows of a page.
pub(super) const ROWS: u32 = 50;

/// A list in its room.
pub(super) struct Listing<'l> {
    pub(super) seat: &'l Seat,
    pub(super) asked: &'l Asked,
    pub(super) room: Room,
    pub(super) title: &'l str,
    /// Between the title and the form.
    pub(super) tabs: Markup,
    /// The fields of the form.
    pub(super) fields: Markup,
    /// What stands where there is no row, and what to do next.
    pub(super) nothing: Markup,
}

impl Listing<'_> {
    /// The page: `read` gives the rows behind a cursor, `table` shows them.
    pub(super) async fn answer<Filter, Cursor, Row, Reading>(
        self,
        filter: Result<Filter, Refusal>,
        read: impl FnOnce(Filter, Option<Cursor>) -> Reading,
        table: impl FnOnce(&[Row]) -> Markup,
    ) -> Result<Response<Body>, Refused>
    where
        Cursor: FromStr,
        Reading: Future<Output = Result<store::Page<Row>, StoreError>>,
    {
        let (asked, path) = (self.asked, self.room.path());
        let rows = match filter {
            Err(refusal) => filters::refused(&refusal),
            Ok(filter) => {
                let cursor = asked.cursor().and_then(|c| c.parse().ok());
                let found = read(filter, cursor).await?;
                html! {
                    @if found.items.is_empty() { (self.nothing) } @else { (table(&found.items)) }
                    (pager(path, &asked.pairs(), asked.cursor(), found.next_cursor.as_deref()))
                }
            }
        };
        let content = Page {
            seat: self.seat,
            room: self.room,
            title: self.title,
            head: html! {
                h1 { (self.title) }
                (self.tabs)
                (filters::form(path, asked, &self.fields))
            },
            live: rows,
            still: html! {},
        };
        Ok(page(StatusCode::OK, content.render()))
    }
}
