//! No statement of the store grows with the ledger: each follows an index to what it needs.
//!
//! The statements are read from the source, so that one nobody's test runs is looked at too, and
//! nothing in the program has to give them away. A literal that begins like a statement must be one,
//! or be listed in [`BUILT`] with what is appended to it.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::outside;
use crate::support::{TestStore, options, sql};

/// What is put behind literals that are only the beginning of a statement.
const BUILT: [(&str, &[&str]); 3] = [
    (
        "SELECT c.id, c.source,",
        &[
            " FROM captured_events c WHERE c.id < ?1 ORDER BY c.id DESC LIMIT ?2",
            " FROM captured_events c WHERE c.id < ?1 AND c.segment = ?2 ORDER BY c.id DESC LIMIT ?3",
            ", c.headers, c.body FROM captured_events c WHERE c.id = ?1",
        ],
    ),
    // Every combination is looked at beside the code that builds it (`store/sqlite/lists/tests.rs`).
    (
        "SELECT e.*",
        &[" FROM effects e WHERE e.id < ?1 ORDER BY e.id DESC LIMIT ?2"],
    ),
    (
        "SELECT q.*",
        &[" FROM work_queue q WHERE q.id < ?1 ORDER BY q.id DESC LIMIT ?2"],
    ),
];

/// How a statement begins.
const BEGINS: [&str; 5] = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH "];

/// Every statement of the store, as it is prepared.
fn statements() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/sqlite");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let sources: Vec<TokenStream> = files
        .iter()
        .map(|f| std::fs::read_to_string(f).unwrap().parse().unwrap())
        .collect();
    let mut prefix = String::new();
    for source in &sources {
        concat(source.clone(), &mut prefix);
    }
    assert!(prefix.starts_with("SELECT o.id"), "{prefix}");
    let mut found = BTreeSet::new();
    for source in sources {
        literals(source, &prefix, &mut found);
    }
    found
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if !path.ends_with("audit.rs") {
            // An audit is asked for by a person, and is meant to read the whole ledger.
            files.push(path);
        }
    }
}

/// The columns that `select_operations!` puts before its argument.
fn concat(source: TokenStream, prefix: &mut String) {
    let tokens: Vec<TokenTree> = source.into_iter().collect();
    for (i, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            if i >= 2 && is_ident(&tokens[i - 2], "concat") {
                for part in group.stream() {
                    prefix.extend(text(&part));
                }
            } else {
                concat(group.stream(), prefix);
            }
        }
    }
}

fn literals(source: TokenStream, prefix: &str, found: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = source.into_iter().collect();
    for (i, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(_) if i >= 2 && is_ident(&tokens[i - 2], "concat") => {}
            TokenTree::Group(group) if i >= 2 && is_ident(&tokens[i - 2], "select_operations") => {
                for tail in group.stream() {
                    found.extend(text(&tail).map(|tail| format!("{prefix}{tail}")));
                }
            }
            TokenTree::Group(group) => literals(group.stream(), prefix, found),
            token => {
                found.extend(text(token).filter(|t| BEGINS.iter().any(|b| t.starts_with(b))));
            }
        }
    }
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

/// What a string literal says, its white space made even.
fn text(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else {
        return None;
    };
    let source = literal.to_string();
    let inner = source.strip_prefix('"')?.strip_suffix('"')?;
    let words = inner.replace("\\\n", " ").replace("\\\"", "\"");
    let end = if words.ends_with(' ') { " " } else { "" };
    let even: Vec<&str> = words.split_whitespace().collect();
    Some(even.join(" ") + end)
}

/// A table that came later, and is filled beside the rows that every version has.
const REQUESTS: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
    INSERT INTO requests (token, key, fingerprint, expires_at_ms, status, answer)
    SELECT 'admin', 'key-' || i, 'f', i + 100, 200, x'7b7d' FROM n";

/// A file with thousands of rows of everything, most of them over.
async fn ledger() -> TestStore {
    let base = TestStore::open().await;
    sql(&base.dir, include_str!("ledger.sql")).await;
    sql(&base.dir, REQUESTS).await;
    base
}

/// Statements that travel together, one by one.
fn apart(statements: &str) -> Vec<&str> {
    let begins = BEGINS.map(|begin| format!("; {begin}"));
    let mut ends: Vec<usize> = begins
        .iter()
        .flat_map(|begin| statements.match_indices(begin.as_str()).map(|(at, _)| at))
        .collect();
    ends.sort_unstable();
    ends.push(statements.len());
    let mut from = 0;
    ends.into_iter()
        .map(|end| {
            let one = &statements[from..end];
            from = end + 2;
            one
        })
        .collect()
}

async fn plan(file: &mut SqliteConnection, statement: &str) -> Result<Vec<String>, sqlx::Error> {
    let explain = format!("EXPLAIN QUERY PLAN {statement}");
    let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(AssertSqlSafe(explain))
        .fetch_all(file)
        .await?;
    Ok(rows.into_iter().map(|row| row.3).collect())
}

/// Statements that want every row of a small index, and those that order a handful of rows.
const WHOLE: [(&str, &str); 9] = [
    // Settled operations whose effects were never planned: a crash's leftovers.
    (
        "SELECT id FROM operations INDEXED BY",
        "SCAN operations USING INDEX operations_unplanned",
    ),
    // Open alerts, all of them.
    (
        "SELECT subject, summary",
        "SCAN alerts USING INDEX alerts_open",
    ),
    (
        "SELECT (SELECT count(*)",
        "SCAN alerts USING COVERING INDEX alerts_open",
    ),
    (
        "SELECT (SELECT count(*)",
        "SCAN operations USING COVERING INDEX operations_late",
    ),
    // At start-up every lease is void.
    (
        "SELECT id, attempts FROM",
        "SCAN work_queue USING INDEX work_queue_leased",
    ),
    (
        "SELECT id, effect, operation_id IS NULL FROM",
        "SCAN effects USING INDEX effects_sending",
    ),
    // A restore touches everything that is on its way, once.
    (
        "UPDATE work_queue SET reason = 'reconcile'",
        "SCAN work_queue USING INDEX work_queue_open",
    ),
    ("UPDATE effects SET state = 'held'", "SCAN effects"),
    // Items that wait for one operation: its own and those under its short ids.
    ("SELECT id, ref_key FROM", "USE TEMP B-TREE FOR ORDER BY"),
];

/// Whether one step of a plan grows with the ledger.
fn grows(statement: &str, step: &str) -> bool {
    let scans = step.strip_prefix("SCAN ").is_some_and(|scanned| {
        // The rows of the statement itself.
        let own = [
            "json_each",
            "jsonb_each",
            "due",
            "ended",
            "pragma_",
            "names",
            "named",
            "CONSTANT ROW",
            "(",
            "sqlite_schema",
        ];
        !own.iter().any(|own| scanned.starts_with(own))
    });
    let sorts = step.starts_with("USE TEMP B-TREE") || step.contains("AUTOMATIC");
    let wanted =
        |(begins, allowed): &(&str, &str)| statement.starts_with(begins) && step == *allowed;
    (scans || sorts) && !WHOLE.iter().any(wanted)
}

#[tokio::test]
async fn every_statement_follows_an_index() {
    let base = ledger().await;
    let mut file = outside(&options(&base.dir).path).await;
    let mut all = Vec::new();
    for statement in statements() {
        let tails = BUILT
            .iter()
            .find(|(begins, _)| statement.starts_with(begins));
        match tails {
            Some((_, tails)) => all.extend(tails.iter().map(|tail| format!("{statement}{tail}"))),
            None => all.push(statement),
        }
    }
    let all: Vec<&str> = all.iter().flat_map(|s| apart(s)).collect();
    assert!(all.len() > 80, "only {} statements were found", all.len());
    let mut grown = String::new();
    for statistics in ["without", "with"] {
        for statement in &all {
            let steps = plan(&mut file, statement)
                .await
                .unwrap_or_else(|e| panic!("{e}: {statement}"));
            if steps.iter().any(|step| grows(statement, step)) {
                writeln!(
                    grown,
                    "{statistics} statistics: {statement}\n    {}",
                    steps.join("\n    ")
                )
                .unwrap();
            }
        }
        sqlx::query("ANALYZE").execute(&mut file).await.unwrap();
    }
    file.close().await.unwrap();
    assert!(grown.is_empty(), "{grown}");
}
