//! The layers, laid over one another.
//!
//! Problem: four sources with different manners (nested TOML, flat variables, flags, the compiled-in
//! defaults) must become one answer per key, and every answer must know where it came from.
//!
//! Design: everything is flattened to dotted keys. A list of tables becomes `effects.0.url`, so the
//! environment can reach into it as well. An empty table stays as a leaf, so that `[sources.x]`
//! without a key still names a source. A secret's three spellings (`k`, `k_file`, `k_env`) are one
//! family: a layer that sets one removes the others that came from below, and may set only one.

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

use super::problem::Problem;

/// Which layer a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `config/default.toml`
    Default,
    /// The file given by `--config`.
    File,
    /// This environment variable.
    Env(String),
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File => f.write_str("file"),
            Self::Env(name) => f.write_str(name),
            Self::Flag => f.write_str("flag"),
        }
    }
}

impl Origin {
    /// Whether values are texts without a type of their own.
    pub(super) const fn is_text(&self) -> bool {
        matches!(self, Self::Env(_) | Self::Flag)
    }

    fn same_layer(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// One value and its origin. Its `Debug` shows only the origin.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leaf from {}", self.origin)
    }
}

/// All layers so far.
#[derive(Debug, Default)]
pub(super) struct Tree {
    leaves: BTreeMap<String, Leaf>,
}

impl Tree {
    /// Lays a TOML document over what is there.
    pub(super) fn overlay(&mut self, table: Table, origin: &Origin, problems: &mut Vec<Problem>) {
        let mut flat = Vec::new();
        flatten("", Value::Table(table), &mut flat);
        for (key, value) in flat {
            self.set(key, value, origin.clone(), problems);
        }
    }

    /// Sets one key, unless its own layer has set it, or another of its family, already.
    pub(super) fn set(
        &mut self,
        key: String,
        value: Value,
        origin: Origin,
        problems: &mut Vec<Problem>,
    ) {
        for rival in family(&key) {
            let Some(there) = self.leaves.get(&rival) else {
                continue;
            };
            if there.origin.same_layer(&origin) {
                let (first, second) = match (&there.origin, &origin) {
                    (Origin::Env(a), Origin::Env(b)) => (a.clone(), b.clone()),
                    _ => (rival, key.clone()),
                };
                problems.push(Problem {
                    key,
                    what: format!("is set twice, by {first} and by {second}"),
                    fix: "keep one of them".to_owned(),
                });
                return;
            }
            self.leaves.remove(&rival);
        }
        self.leaves.insert(key, Leaf { value, origin });
    }

    pub(super) fn get(&self, key: &str) -> Option<&Leaf> {
        self.leaves.get(key)
    }

    /// Whether that layer gave the text of a secret.
    pub(super) fn holds_secrets_from(&self, origin: &Origin) -> bool {
        self.leaves().any(|(key, leaf)| {
            leaf.origin == *origin && is_secret(key) && secret_base(key).is_none()
        })
    }

    /// Every key with its leaf, in the order of keys.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (&str, &Leaf)> {
        self.leaves.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The names directly under `section`: sources, headers, positions in a list.
    pub(super) fn names_under(&self, section: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for key in self.leaves.keys() {
            let rest = if section.is_empty() {
                Some(key.as_str())
            } else {
                key.strip_prefix(section)
                    .and_then(|rest| rest.strip_prefix('.'))
            };
            let Some(rest) = rest else { continue };
            let name = first_segment(rest).to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.sort_by_key(|n| (n.parse::<usize>().unwrap_or(usize::MAX), n.clone()));
        names
    }
}

/// The first segment of a dotted key; a quoted one keeps its quotes.
fn first_segment(key: &str) -> &str {
    let end = if let Some(quoted) = key.strip_prefix('"') {
        quoted.find('"').map_or(key.len(), |at| at + 2)
    } else {
        key.find('.').unwrap_or(key.len())
    };
    key.get(..end).unwrap_or(key)
}

fn flatten(at: &str, value: Value, into: &mut Vec<(String, Value)>) {
    let under = |name: &str| {
        let name = if name.contains('.') || name.trim().is_empty() {
            format!("\"{name}\"")
        } else {
            name.to_owned()
        };
        if at.is_empty() {
            name
        } else {
            format!("{at}.{name}")
        }
    };
    match value {
        Value::Table(table) if !table.is_empty() => {
            for (name, value) in table {
                flatten(&under(&name), value, into);
            }
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_table) => {
            for (i, item) in items.into_iter().enumerate() {
                flatten(&under(&i.to_string()), item, into);
            }
        }
        // An empty document at the root says nothing.
        Value::Table(_) if at.is_empty() => {}
        leaf => into.push((at.to_owned(), leaf)),
    }
}

/// Whether the value under this key must never be shown.
pub(super) fn is_secret(key: &str) -> bool {
    let segments: Vec<&str> = key.split('.').collect();
    matches!(
        segments.as_slice(),
        ["hooks", "path_token" | "shared_secret"]
            | ["admin", "token"]
            | ["admin", "tokens", _, "token"]
            | ["gemini", "api_key"]
            | ["gemini", "extra_headers", _, ..]
            | ["traces", "headers", _, ..]
            | ["sources", _, "signing_secrets"]
            | ["effects", _, "secret" | "webhook_url"]
            | ["effects", _, "headers", _, ..]
    )
}

/// The key without `_file` or `_env`, when it names a secret that way.
pub(super) fn secret_base(key: &str) -> Option<&str> {
    ["_file", "_env"]
        .iter()
        .find_map(|suffix| key.strip_suffix(suffix))
        .filter(|base| is_secret(base))
}

/// The spellings that exclude `key`: itself, and for a secret its other two.
fn family(key: &str) -> Vec<String> {
    let base = secret_base(key).unwrap_or(key);
    if is_secret(base) {
        ["", "_file", "_env"]
            .iter()
            .map(|suffix| format!("{base}{suffix}"))
            .collect()
    } else {
        vec![key.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(layers: &[(&str, Origin)]) -> (Tree, Vec<Problem>) {
        let (mut tree, mut problems) = (Tree::default(), Vec::new());
        for (text, origin) in layers {
            tree.overlay(text.parse().unwrap(), origin, &mut problems);
        }
        (tree, problems)
    }

    #[test]
    fn a_later_layer_wins_key_by_key() {
        let (tree, problems) = tree(&[
            ("[a]\nx = 1\ny = 2", Origin::Default),
            ("[a]\ny = 3", Origin::File),
        ]);
        assert_eq!(problems, []);
        assert_eq!(tree.get("a.x").unwrap().origin, Origin::Default);
        assert_eq!(tree.get("a.y").unwrap().value, Value::Integer(3));
    }

    #[test]
    fn lists_of_tables_and_empty_tables_have_names() {
        let toml = "[sources.b]\n[sources.a]\nx = 1\n[[effects]]\nname = 'n'\n[h]\n'x.y' = 'v'";
        let (tree, _) = tree(&[(toml, Origin::File)]);
        assert_eq!(tree.names_under("sources"), ["a", "b"]);
        assert_eq!(tree.names_under("effects"), ["0"]);
        assert_eq!(tree.names_under("h"), ["\"x.y\""]);
    }

    #[test]
    fn a_secret_is_set_once_per_layer_and_replaced_whole() {
        let low = ("[admin]\ntoken_file = '/x'", Origin::File);
        let (mut tree, mut problems) = tree(&[("[admin]\ntoken = ''", Origin::Default), low]);
        assert!(tree.get("admin.token").is_none());
        for name in ["HOOKLEDGER_ADMIN_TOKEN", "HOOKLEDGER_ADMIN_TOKEN_FILE"] {
            let key = if name.ends_with("_FILE") {
                "admin.token_file"
            } else {
                "admin.token"
            };
            let origin = Origin::Env(name.to_owned());
            tree.set(key.to_owned(), Value::from("v"), origin, &mut problems);
        }
        assert!(tree.get("admin.token_file").is_none());
        assert_eq!(problems.len(), 1);
        assert!(problems[0].what.contains("HOOKLEDGER_ADMIN_TOKEN_FILE"));
    }
}
