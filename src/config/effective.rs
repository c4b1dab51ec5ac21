//! The configuration as it is in force, fit to be shown.
//!
//! Masked by key, not by value: secrets never get here as text at all. An effect's address shows its
//! host alone and a command its program alone, since tokens live in the rest of both.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use toml::Value;

use super::tree::{Leaf, Origin, Tree, is_secret, secret_base};

/// One key in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The dotted key.
    pub key: String,
    /// Its value; `[secret]` for a secret.
    pub value: Json,
    /// Where it was set.
    pub origin: Origin,
}

/// Every key in force, in the order of keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective(Vec<Entry>);

impl Effective {
    pub(super) fn of(tree: &Tree) -> Self {
        let entries = tree
            .leaves()
            .filter(|(_, leaf)| !leaf.value.is_table())
            .map(|(key, leaf)| Entry {
                key: key.to_owned(),
                value: shown(key, leaf),
                origin: leaf.origin.clone(),
            });
        Self(entries.collect())
    }

    /// Every key.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// The keys that differ from those of `before` and are no secrets that can be read again.
    pub fn other_than(&self, before: &Self) -> Vec<String> {
        let fixed = |entry: &&Entry| {
            let key = entry.key.as_str();
            let secret = is_secret(key) || secret_base(key).is_some();
            !secret && !key.starts_with("admin.tokens.")
        };
        let of = |all: &Self| -> BTreeMap<String, String> {
            let fixed = all.0.iter().filter(fixed);
            fixed
                .map(|e| (e.key.clone(), e.value.to_string()))
                .collect()
        };
        let (before, now) = (of(before), of(self));
        let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        keys.into_iter()
            .filter(|key| before.get(*key) != now.get(*key))
            .cloned()
            .collect()
    }

    /// `{"server.listen": {"value": "127.0.0.1:8080", "from": "default"}, …}`
    pub fn to_json(&self) -> Json {
        self.0
            .iter()
            .map(|e| {
                let shown = json!({"value": e.value, "from": e.origin.to_string()});
                (e.key.clone(), shown)
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

fn shown(key: &str, leaf: &Leaf) -> Json {
    let value = &leaf.value;
    if is_secret(key) {
        let set = match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        return if set { "[secret]" } else { "" }.into();
    }
    let segments: Vec<&str> = key.split('.').collect();
    match (segments.as_slice(), value) {
        (["effects", _, "url"], Value::String(text)) => host(text),
        (["subscription", "uri"], Value::String(text)) if !text.is_empty() => host(text),
        (["effects", _, "argv"], Value::Array(argv)) => {
            let program = argv.first().and_then(Value::as_str).unwrap_or_default();
            format!("{program} ({} arguments)", argv.len().saturating_sub(1)).into()
        }
        (["effects", _, "argv"], _) => "[set]".into(),
        _ => serde_json::to_value(value).unwrap_or(Json::Null),
    }
}

fn host(url: &str) -> Json {
    let url = url::Url::parse(url).ok();
    let host = url
        .as_ref()
        .and_then(|u| Some(format!("{}://{}/...", u.scheme(), u.host_str()?)));
    host.unwrap_or_default().into()
}
