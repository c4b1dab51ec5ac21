//! `prune`: removing what is over now, or only saying what that is.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::access::Access;
use super::args::Prune;
use super::failure::Failure;
use super::output::{Column, Output};
use super::progress::Progress;

const COLUMNS: [Column; 4] = [
    ("WHAT", "what"),
    ("ROWS", "rows"),
    ("OLDEST", "oldest"),
    ("NEWEST", "newest"),
];

pub(super) async fn run(access: &Access, args: &Prune, output: &Output) -> Result<(), Failure> {
    if args.dry_run {
        let over = access.over().await?;
        return output.list(&over, "over", &COLUMNS);
    }
    let mut all = Map::new();
    let bar = Progress::new("removed", Some(0));
    if bar.is_seen() {
        bar.whole(rows(&access.over().await?));
    }
    loop {
        let gone = access.prune().await?;
        let removed = gone.get("removed").and_then(Value::as_object);
        for (what, rows) in removed.into_iter().flatten() {
            let before = all.get(what).and_then(Value::as_u64).unwrap_or(0);
            bar.add(rows.as_u64().unwrap_or(0));
            let rows = before + rows.as_u64().unwrap_or(0);
            all.insert(what.clone(), Value::from(rows));
        }
        if gone.get("more") != Some(&Value::Bool(true)) {
            break;
        }
    }
    drop(bar);
    let document = json!({"removed": all});
    output.answer(&document, |_| {
        let mut text = String::new();
        for (what, rows) in &all {
            _ = writeln!(text, "{what:11}  {rows}");
        }
        text
    })
}

/// How many rows are over, of all tables.
fn rows(over: &Value) -> u64 {
    let tables = over.get("over").and_then(Value::as_array);
    let rows = |table: &Value| table.get("rows").and_then(Value::as_u64);
    tables.into_iter().flatten().filter_map(rows).sum()
}
