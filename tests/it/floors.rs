//! The floor table is law: every `crate::` path in `src/` is checked against it.
//!
//! Reads tokens, not lines, so that a path in an expression, a `use` group or a macro counts, and a
//! word in a comment or a string does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// Room → floor. A room may use only rooms on lower floors, and itself.
const FLOORS: &[(&str, u8)] = &[
    ("base", 0),
    ("domain", 1),
    ("config", 1),
    ("telemetry", 1),
    ("store", 2),
    ("verify", 2),
    ("gemini", 2),
    ("effects", 3),
    ("receive", 4),
    ("work", 4),
    ("reconcile", 4),
    ("http", 5),
    ("simulator", 5),
    ("app", 6),
    ("cli", 7),
    ("main", 7),
];

/// Pairs on one floor that may meet: settings are made of domain words, and the program calls its
/// command line.
const ALLOWED_BESIDE: &[(&str, &str)] = &[("config", "domain"), ("main", "cli")];

/// Crate → the only rooms (or files) that may name it.
const FOREIGN: &[(&str, &[&str])] = &[
    ("sqlx", &["store"]),
    ("libsqlite3_sys", &["store"]),
    ("axum", &["http", "simulator"]),
    ("maud", &["http/web"]),
    ("clap", &["cli"]),
    (
        "reqwest",
        &[
            "gemini",
            "verify/jwks",
            "effects",
            "simulator/webhooks",
            "cli/client",
            "telemetry/traces",
        ],
    ),
    ("opentelemetry_proto", &["telemetry/traces"]),
    ("prost", &["telemetry/traces"]),
];

/// Rooms a room may never name, whatever their floors.
const FORBIDDEN: &[(&str, &[&str])] = &[("simulator", &["gemini", "domain"])];

fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// Every path in `tokens` that starts with `crate::` or `hookledger::`, as its next segment, and
/// every first segment of any other path.
fn paths(tokens: TokenStream, rooms: &mut Vec<(String, usize)>, firsts: &mut Vec<(String, usize)>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    for (i, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Group(group) => paths(group.stream(), rooms, firsts),
            TokenTree::Ident(ident) => {
                let leads_path = is_colons(&trees, i + 1);
                let follows = i >= 2 && is_colons(&trees, i - 2);
                if !leads_path || follows {
                    continue;
                }
                let line = ident.span().start().line;
                if ident == "crate" || ident == "hookledger" {
                    match trees.get(i + 3) {
                        Some(TokenTree::Ident(room)) => rooms.push((room.to_string(), line)),
                        Some(TokenTree::Group(group)) => {
                            let mut first = true;
                            for inner in group.stream() {
                                match inner {
                                    TokenTree::Ident(room) if first => {
                                        rooms.push((room.to_string(), line));
                                        first = false;
                                    }
                                    TokenTree::Punct(p) if p.as_char() == ',' => first = true,
                                    _ => {}
                                }
                            }
                        }
                        _ => {}
                    }
                } else {
                    firsts.push((ident.to_string(), line));
                }
            }
            _ => {}
        }
    }
}

fn is_colons(trees: &[TokenTree], at: usize) -> bool {
    let colon =
        |t: Option<&TokenTree>| matches!(t, Some(TokenTree::Punct(p)) if p.as_char() == ':');
    colon(trees.get(at)) && colon(trees.get(at + 1))
}

fn violations(file: &str, source: &str) -> Vec<String> {
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    let room = file.split('/').next().unwrap().trim_end_matches(".rs");
    if matches!(room, "lib" | "build") {
        return Vec::new();
    }
    let Some(&own) = floors.get(room) else {
        return vec![format!(
            "{file}: the room {room} stands on no floor; add it to the table"
        )];
    };
    let (mut rooms, mut firsts) = (Vec::new(), Vec::new());
    paths(source.parse().unwrap(), &mut rooms, &mut firsts);
    let mut found = Vec::new();
    for (used, line) in rooms {
        let Some(&floor) = floors.get(used.as_str()) else {
            found.push(format!("{file}:{line}: crate::{used} is no room"));
            continue;
        };
        let beside = ALLOWED_BESIDE.contains(&(room, used.as_str()));
        if used != room && floor >= own && !beside {
            found.push(format!(
                "{file}:{line}: {room} (floor {own}) uses {used} (floor {floor})"
            ));
        }
        if FORBIDDEN
            .iter()
            .any(|(r, not)| *r == room && not.contains(&used.as_str()))
        {
            found.push(format!("{file}:{line}: {room} may never name {used}"));
        }
    }
    for (used, line) in firsts {
        let limit = FOREIGN.iter().find(|(krate, _)| *krate == used);
        if let Some((krate, only)) = limit
            && !only.iter().any(|place| file.starts_with(place))
        {
            found.push(format!("{file}:{line}: only {only:?} may name {krate}"));
        }
    }
    found
}

#[test]
fn every_path_keeps_to_its_floor() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 20, "found only {} files", files.len());
    let mut found = Vec::new();
    for path in files {
        let file = path
            .strip_prefix(&src)
            .unwrap()
            .to_str()
            .unwrap()
            .replace('\\', "/");
        found.extend(violations(&file, &std::fs::read_to_string(&path).unwrap()));
    }
    assert!(found.is_empty(), "broken floors:\n{}", found.join("\n"));
}

#[test]
fn a_broken_floor_is_found_wherever_it_hides() {
    for (file, source) in [
        ("domain/work.rs", "use crate::store::Store;"),
        ("domain/work.rs", "fn f() { let x = crate::work::step(); }"),
        ("base/ids.rs", "use crate::{base::clock, domain::event};"),
        ("work/step.rs", "use crate::reconcile::sweep;"),
        ("receive/mod.rs", "fn f(pool: sqlx::SqlitePool) {}"),
        (
            "work/step.rs",
            "macro_rules! m { () => { axum::Router::new() } }",
        ),
        ("simulator/state.rs", "use crate::domain::operation::Kind;"),
        ("verify/envelope.rs", "use reqwest::Client;"),
        ("newroom/mod.rs", ""),
    ] {
        assert!(!violations(file, source).is_empty(), "{file}: {source}");
    }
    for (file, source) in [
        ("work/step.rs", "use crate::store::Store; // crate::http"),
        ("verify/jwks.rs", "use reqwest::Client;"),
        (
            "http/hooks.rs",
            "const S: &str = \"crate::cli\"; use crate::{receive, verify};",
        ),
        (
            "gemini/wire/batch.rs",
            "use super::super::wire; use crate::gemini::FileName;",
        ),
    ] {
        assert_eq!(
            violations(file, source),
            Vec::<String>::new(),
            "{file}: {source}"
        );
    }
}
