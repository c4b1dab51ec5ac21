//! Every combination of filters, on a file of thousands of rows: each follows its index, none sorts
//! more than a handful of rows.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::super::pool::MIGRATOR;
use super::super::reports::EVENT_COLUMNS;
use super::super::rows::operation_columns;
use super::*;
use crate::domain::effect::EffectState;
use crate::domain::event::Verdict;
use crate::domain::ledger::Told;
use crate::domain::operation::{Kind, OperationState};
use crate::domain::work::{Reason, WorkState};

async fn file() -> SqliteConnection {
    let mut file = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    MIGRATOR.run_direct(None, &mut file, false).await.unwrap();
    let rows = include_str!("../../../../tests/it/store/ledger.sql");
    sqlx::raw_sql(rows).execute(&mut file).await.unwrap();
    file
}

async fn plan(file: &mut SqliteConnection, statement: String) -> Vec<String> {
    let rows: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")))
            .fetch_all(file)
            .await
            .unwrap();
    rows.into_iter().map(|row| row.3).collect()
}

/// What is wrong with the plans of a walk, those of `seen` left out.
async fn wrong(
    file: &mut SqliteConnection,
    walk: &Walk,
    columns: &'static str,
    seen: &mut BTreeSet<String>,
) -> Option<String> {
    let floor = matches!(walk.below, Text(_)).then_some(Text("a".to_owned()));
    let floor = floor.unwrap_or(Number(1));
    let few = walk.from.len() > 1;
    let judged = !walk.judged.is_empty();
    let page = walk.page(columns, judged.then_some(&floor), 50);
    let mut statements = vec![page.sql().as_str().to_owned()];
    if judged {
        statements.push(walk.floor().sql().as_str().to_owned());
    }
    for statement in statements {
        if !seen.insert(statement.clone()) {
            continue;
        }
        let steps = plan(file, statement.clone()).await;
        let bounded = steps.iter().all(|step| {
            let own =
                few && (step.starts_with("SCAN named") || step.starts_with("USE TEMP B-TREE"));
            let grows = ["SCAN", "USE TEMP B-TREE"]
                .iter()
                .any(|word| step.starts_with(word));
            own || !grows && !step.contains("AUTOMATIC")
        });
        // The first step is the walk: by id, below the cursor, and no further than the floor.
        let (alias, first) = (walk.key.split('.').next()?, steps.first()?);
        let ranged = few
            || first.starts_with(&format!("SEARCH {alias} "))
                && ["(id<?)", " AND id<?)", "(rowid<?)", " AND rowid<?)"]
                    .iter()
                    .any(|range| first.ends_with(range));
        let index = walk.from.iter().find_map(|piece| match piece {
            Sql(text) => text.split_once(" INDEXED BY ").map(|(_, index)| index),
            _ => None,
        });
        let index = index.is_none_or(|index| first.contains(index));
        if !(bounded && ranged && index) {
            return Some(format!("{statement}\n  {}\n", steps.join("\n  ")));
        }
    }
    None
}

/// `None` and each of `some`.
fn maybe<T: Clone>(some: &[T]) -> Vec<Option<T>> {
    let some = some.iter().cloned().map(Some);
    std::iter::once(None).chain(some).collect()
}

/// The walks of every combination, each with what it selects.
fn walks() -> Vec<(Walk, &'static str)> {
    let times = [
        (None, None),
        (
            Some(Timestamp::from_millis(1)),
            Some(Timestamp::from_millis(9)),
        ),
    ];
    let ids = || Some(vec!["a".to_owned(), "b".to_owned()]);
    let prefixes = maybe(&["ab", "batches/ab"]);
    let q = |text: Option<&str>| text.map(|t| t.parse().unwrap());
    let mut walks = Vec::new();
    for (prefix, (since, until)) in prefixes.iter().flat_map(|p| times.map(|t| (*p, t))) {
        for bits in 0..1_u32 << 6 {
            let has = |bit: u32| bits & 1 << bit != 0;
            for state in maybe(&[OperationState::Succeeded, OperationState::Pending]) {
                let filter = OperationFilter {
                    q: q(prefix),
                    kind: has(0).then_some(Kind::Video),
                    job_kind: has(1).then(|| "nightly".parse().unwrap()),
                    state,
                    settled_by: has(2).then_some(Reason::Reconcile),
                    overdue: has(3).then(|| has(4)),
                    told: has(5).then_some(Told::Rescued),
                    since,
                    until,
                };
                walks.push((filter.walk(None, None), operation_columns!()));
                if prefix.is_some() {
                    walks.push((filter.walk(ids(), None), operation_columns!()));
                }
            }
            for verdict in maybe(&[Verdict::Accepted, Verdict::Ignored]) {
                let filter = EventFilter {
                    segment: has(0).then(|| "ab".to_owned()),
                    q: q(prefix),
                    source: has(1).then(|| "gemini".to_owned()),
                    event_type: has(2).then(|| "batch.succeeded".to_owned()),
                    verdict,
                    originals: has(3),
                    since,
                    until,
                };
                walks.push((filter.walk(None, None), EVENT_COLUMNS));
                if prefix.is_some() {
                    walks.push((filter.walk(ids(), None), EVENT_COLUMNS));
                }
            }
            for state in maybe(&WorkState::ALL) {
                let filter = WorkFilter {
                    q: q(prefix),
                    state,
                    reason: has(0).then_some(Reason::Operator),
                    since,
                    until,
                };
                walks.push((filter.walk(None), "SELECT q.*"));
            }
            for state in maybe(&EffectState::ALL) {
                let filter = EffectFilter {
                    q: q(prefix),
                    state,
                    effect: has(0).then(|| "notify".to_owned()),
                    cause: has(1).then(|| "alert".to_owned()),
                    since,
                    until,
                };
                walks.push((filter.walk(None), "SELECT e.*"));
            }
        }
    }
    walks
}

#[tokio::test]
async fn every_combination_of_filters_follows_an_index_and_is_bounded() {
    let mut file = file().await;
    let walks = walks();
    for statistics in ["without", "with"] {
        let mut seen = BTreeSet::new();
        for (walk, columns) in &walks {
            let wrong = wrong(&mut file, walk, columns, &mut seen).await;
            assert!(
                wrong.is_none(),
                "{statistics} statistics: {}",
                wrong.unwrap()
            );
        }
        sqlx::query("ANALYZE").execute(&mut file).await.unwrap();
    }
}

#[test]
fn ids_are_cut_by_time_as_they_were_made() {
    use crate::base::ids::{Ids as _, RandomIds};
    let (ids, at) = (
        RandomIds::seeded(1),
        Timestamp::from_millis(1_796_055_711_123),
    );
    let (id, next) = (
        ids.uuid(at).to_string(),
        Timestamp::from_millis(at.as_millis() + 1),
    );
    assert!(first_id(at) <= id && id < first_id(next), "{id}");
    assert!(first_id(Timestamp::from_millis(-1)) < id);
    assert!(first_id(Timestamp::from_millis(i64::MAX)) > id);
}
