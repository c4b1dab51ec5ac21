//! Bulk recovery on the file: all pages under one lock. Counting takes none.

use super::super::bulk::{Bulk, Job, Sum, id};
use super::super::failure::Failure;
use super::{File, Writing};
use crate::domain::recovered::Recovered;
use crate::domain::work::WorkState;
use crate::store::{EffectFilter, EventFilter, Page, Reader, WorkFilter};

/// Rows of one page.
const PAGE: u32 = 500;

impl File {
    pub(in crate::cli) async fn bulk(
        &self,
        bulk: &Bulk,
        dry_run: bool,
        told: &(dyn Fn(u64) + Sync),
    ) -> Result<Sum, Failure> {
        if dry_run {
            let reader = self.reader().await?;
            return pages(told, async |cursor| count(&reader, &bulk.job, cursor).await).await;
        }
        self.write(
            |w| async move { pages(told, async |cursor| act(&w, &bulk.job, cursor).await).await },
        )
        .await
    }
}

async fn pages(
    told: &(dyn Fn(u64) + Sync),
    page: impl AsyncFn(Option<String>) -> Result<Recovered, Failure>,
) -> Result<Sum, Failure> {
    let (mut sum, mut cursor) = (Sum::default(), None);
    loop {
        let page = page(cursor).await?;
        sum.matched += page.matched;
        sum.done += page.done;
        told(page.matched);
        if page.next_cursor.is_none() {
            return Ok(sum);
        }
        cursor = page.next_cursor;
    }
}

async fn count(reader: &Reader, job: &Job, cursor: Option<String>) -> Result<Recovered, Failure> {
    let at = cursor.as_deref();
    Ok(match job {
        Job::Replay(filter) => {
            let filter = EventFilter {
                originals: true,
                ..filter.clone()
            };
            counted(&reader.events(&filter, id(at), PAGE).await?)
        }
        Job::Item(wanted) => {
            let any = dead(&WorkFilter::default());
            let page = reader.work_items(&any, wanted.checked_add(1), 1).await?;
            let found = page.items.iter().any(|item| item.id == *wanted);
            Recovered {
                matched: u64::from(found),
                ..Recovered::default()
            }
        }
        Job::Items(filter) => {
            let at = at.and_then(|text| text.parse().ok());
            counted(&reader.work_items(&dead(filter), at, PAGE).await?)
        }
        Job::Effects(filter, state) => {
            let filter = EffectFilter {
                state: Some(*state),
                ..filter.clone()
            };
            counted(&reader.effects(&filter, id(at), PAGE).await?)
        }
    })
}

async fn act(w: &Writing, job: &Job, cursor: Option<String>) -> Result<Recovered, Failure> {
    let at = cursor.as_deref();
    Ok(match job {
        Job::Replay(filter) => w.receiver.replay_page(filter, id(at), PAGE, false).await?,
        Job::Item(wanted) => w.registrar.retry_item(*wanted, false).await?,
        Job::Items(filter) => {
            let at = at.and_then(|text| text.parse().ok());
            w.registrar.retry_items(filter, at, PAGE, false).await?
        }
        Job::Effects(filter, state) => {
            let page = (PAGE, false);
            w.registrar
                .retry_effects(filter, *state, id(at), page)
                .await?
        }
    })
}

fn dead(filter: &WorkFilter) -> WorkFilter {
    WorkFilter {
        state: Some(WorkState::Dead),
        ..filter.clone()
    }
}

fn counted<T>(page: &Page<T>) -> Recovered {
    Recovered {
        matched: u64::try_from(page.items.len()).unwrap_or(u64::MAX),
        done: 0,
        next_cursor: page.next_cursor.clone(),
    }
}
