//! The rules of `docs/LOGGING.md`, held against each line that the source can write and against those that
//! a running service has written; and the page's list of lines, made from the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use serde_json::Value;

use crate::support::document;
use crate::support::stand::{SOON, Stand, silent, succeeded};
use crate::verification_doc::rust_files;

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
/// Whoever names a field so would log what must not be in a log.
const NEVER: [&str; 8] = [
    "body",
    "payload",
    "secret",
    "signature",
    "key_value",
    "authorization",
    "headers",
    "cookie",
];
/// The token's name, never its value: the type has no other text.
const NAMES_ONLY: [(&str, &str); 3] = [
    ("token", "http/admin/auth.rs"),
    ("token", "http/web/seat.rs"),
    ("token", "http/web/sign_in.rs"),
];

/// One place that logs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    level: usize,
    message: String,
    fields: Vec<String>,
    file: String,
}

/// Every line of the program; those of its tests and of the simulator apart.
fn lines() -> Vec<Line> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let mut all = Vec::new();
    for path in files {
        let file = path.strip_prefix(&root).unwrap().display().to_string();
        if file.starts_with("simulator") || file.ends_with("tests.rs") {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let source = source.split("\n#[cfg(test)]\nmod ").next().unwrap();
        find(source.parse().unwrap(), &file, &mut all);
    }
    all.sort();
    all
}

/// `tracing::LEVEL!(…)`, wherever it stands; and `tracing::$level!(…)` once for each level that the file's
/// own macro `line!` is called with.
fn find(tokens: TokenStream, file: &str, into: &mut Vec<Line>) {
    let called = levels_of_line(&tokens);
    find_in(tokens, file, &called, into);
}

fn find_in(tokens: TokenStream, file: &str, called: &[usize], into: &mut Vec<Line>) {
    let trees: Vec<_> = tokens.into_iter().collect();
    for (i, tree) in trees.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            let before = |n: usize| i.checked_sub(n).and_then(|at| trees.get(at));
            let text = |n| before(n).map(ToString::to_string).unwrap_or_default();
            let written = LEVELS.iter().position(|level| *level == text(2));
            let levels = match written {
                _ if text(1) != "!" => Vec::new(),
                Some(level) if text(5) == "tracing" => vec![level],
                None if text(3) == "$" && text(6) == "tracing" => called.to_vec(),
                _ => Vec::new(),
            };
            if levels.is_empty() {
                find_in(group.stream(), file, called, into);
            }
            for level in levels {
                into.push(line(level, group.stream(), file));
            }
        }
    }
}

/// The levels of `line!(LEVEL)`.
fn levels_of_line(tokens: &TokenStream) -> Vec<usize> {
    let text: String = tokens.to_string().split_whitespace().collect();
    let is_called = |level: &&str| text.contains(&format!("line!({level})"));
    let called = LEVELS.iter().filter(|level| is_called(level));
    called
        .filter_map(|level| LEVELS.iter().position(|one| one == level))
        .collect()
}

/// The arguments, split at their commas: fields, then the message, then what it is filled with.
fn line(level: usize, arguments: TokenStream, file: &str) -> Line {
    let mut line = Line {
        level,
        message: String::new(),
        fields: Vec::new(),
        file: file.to_owned(),
    };
    let mut argument: Vec<TokenTree> = Vec::new();
    let end = std::iter::once(None);
    for tree in arguments.into_iter().map(Some).chain(end) {
        match tree {
            Some(TokenTree::Punct(p)) if p.as_char() == ',' => {}
            Some(tree) => {
                argument.push(tree);
                continue;
            }
            None => {}
        }
        match argument.as_slice() {
            [TokenTree::Literal(text)] if line.message.is_empty() => {
                text.to_string()
                    .trim_matches('"')
                    .clone_into(&mut line.message);
            }
            [] => {}
            _ if line.message.is_empty() => {
                let name = argument.iter().find(|t| matches!(t, TokenTree::Ident(_)));
                line.fields.push(name.unwrap().to_string());
            }
            _ => {}
        }
        argument.clear();
    }
    line
}

#[test]
fn a_message_reads_alone_and_no_field_can_hold_what_must_not_be_logged() {
    let all = lines();
    assert!(all.len() > 60, "{}", all.len());
    for line in &all {
        let Line { message, file, .. } = line;
        let begins = message.starts_with(|c: char| c.is_lowercase());
        // Names are written as they are.
        assert!(begins || message.starts_with("no RSA"), "{file}: {message}");
        assert!(!message.ends_with('.'), "{file}: {message}");
        assert!(
            message.contains(' ')
                || message == "stopping"
                || message == "pruned"
                || message == "reconciled",
            "{file}: {message} says too little"
        );
        assert!(!message.contains(":?"), "{file}: {message}");
        for field in &line.fields {
            let known = NAMES_ONLY.contains(&(field.as_str(), file.as_str()));
            let bad = NEVER.contains(&field.as_str()) || field == "token";
            assert!(!bad || known, "{file}: {message}: {field}");
        }
    }
}

#[test]
fn the_page_lists_every_line_from_info_up() {
    let mut wanted = String::from("\n| level | message | fields |\n|---|---|---|\n");
    let mut seen: BTreeMap<(usize, String), BTreeSet<String>> = BTreeMap::new();
    for line in lines().into_iter().filter(|line| line.level < 3) {
        let message = line.message.replace('|', "\\|");
        seen.entry((line.level, message))
            .or_default()
            .extend(line.fields);
    }
    for ((level, message), fields) in seen {
        let fields: Vec<_> = fields.iter().map(|field| format!("`{field}`")).collect();
        let (level, fields) = (LEVELS.get(level).unwrap(), fields.join(", "));
        writeln!(wanted, "| {level} | {message} | {fields} |").unwrap();
    }
    document::check_after("docs/LOGGING.md", "<!-- lines -->\n", &wanted);
}

/// What a running service writes: one object a line, its message one of the list, what it is about beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_writes_one_object_a_line_and_says_nothing_that_the_page_does_not() {
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    let name = stand.gemini.start(silent(false)).unwrap();
    assert_eq!(stand.deliver("told", succeeded(&name)).await.0, 200);
    stand.settled(&name).await;
    let wrong = stand.signed("wrong", "{}").header("webhook-id", "other");
    assert_eq!(wrong.send().await.unwrap().status(), 401);
    let mut service = stand.take();
    service.terminate();
    assert!(service.ended(SOON).await.success());
    let known = lines();
    let mut said = Vec::new();
    for text in service.logged().lines() {
        let line: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
        let field = |name: &str| line.get(name).and_then(Value::as_str);
        let (level, message) = (
            field("level").unwrap(),
            field("message").unwrap().to_owned(),
        );
        assert!(field("timestamp").unwrap().ends_with('Z'), "{text}");
        assert!(field("target").is_some(), "{text}");
        let is_this = |known: &&Line| {
            let fixed = known.message.split('{').next().unwrap();
            message.starts_with(fixed) && LEVELS[known.level] == level.to_lowercase()
        };
        let known = known.iter().find(is_this);
        let known = known.unwrap_or_else(|| panic!("not in the list: {text}"));
        // What it is about comes first; what is not known is left out.
        if let Some(about) = known.fields.first() {
            assert!(line.get(about).is_some(), "{about} is not in {text}");
        }
        said.push(message);
    }
    assert_eq!(said.last().unwrap(), "hookledger has stopped");
    for once in [
        "hookledger starts",
        "hookledger accepts deliveries",
        "operation settled",
        "effect attempt ended",
        "delivery refused",
    ] {
        let times = said.iter().filter(|message| *message == once).count();
        assert_eq!(times, 1, "{once}: {said:?}");
    }
}
