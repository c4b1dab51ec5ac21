//! `docs/PAGE.md` is true: what the page does, the API and the CLI do as well.
//!
//! Each row of the table names a route of the page, an operation of the OpenAPI document, and a command.
//! The routes are held against the source, the commands are read by the program's own grammar, and no
//! form of the page may be missing from the table.

use std::collections::BTreeSet;
use std::path::Path;

use hookledger::cli;

use crate::openapi::DOCUMENT;

/// The forms by which somebody comes and goes: a token is there without them.
const ENTRANCE: [&str; 2] = ["POST /login", "POST /logout"];

/// A file of the project, read when the test runs.
fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The cells of the table, without what they are called.
fn rows(doc: &str) -> Vec<[&str; 3]> {
    let (_, section) = doc.split_once("## The same by API and CLI").unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let lines = lines.take_while(|line| line.starts_with('|')).skip(2);
    lines.map(cells).collect()
}

fn cells(line: &str) -> [&str; 3] {
    let cells = line.trim_matches('|').split('|').skip(1);
    let cells: Vec<_> = cells.map(|cell| cell.trim().trim_matches('`')).collect();
    cells.try_into().unwrap()
}

/// What the page's router answers, as `METHOD path`.
fn page_routes(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in source.lines() {
        let Some((path, handlers)) = line
            .trim()
            .strip_prefix(".route(\"")
            .and_then(|rest| rest.split_once('"'))
        else {
            continue;
        };
        for (call, method) in [("get(", "GET"), ("post(", "POST")] {
            if handlers.contains(call) {
                found.insert(format!("{method} {path}"));
            }
        }
    }
    found
}

#[test]
fn what_the_page_does_is_done_by_api_and_cli_as_well() {
    let (doc, source) = (file("docs/PAGE.md"), file("src/http/web/mod.rs"));
    let (rows, routes) = (rows(&doc), page_routes(&source));
    assert!(rows.len() > 8, "only {} rows were found", rows.len());
    for [page, api, command] in &rows {
        assert!(routes.contains(*page), "the page has no {page}");
        let (method, path) = api.split_once(' ').unwrap();
        let documented = DOCUMENT.get("paths").and_then(|all| all.get(path));
        let documented = documented.and_then(|path| path.get(method.to_lowercase()));
        assert!(documented.is_some(), "the API's document has no {api}");
        let words = std::iter::once("hookledger").chain(command.split(' '));
        let read = cli::command().try_get_matches_from(words);
        assert!(read.is_ok(), "{command}: {}", read.unwrap_err());
    }
    let told: BTreeSet<&str> = rows.iter().map(|[page, ..]| *page).collect();
    let forms = routes.iter().filter(|route| route.starts_with("POST "));
    let untold: Vec<_> = forms
        .filter(|form| !ENTRANCE.contains(&form.as_str()) && !told.contains(form.as_str()))
        .collect();
    assert!(untold.is_empty(), "not in the table: {untold:?}");
}
