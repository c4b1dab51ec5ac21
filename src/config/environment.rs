//! The environment as a layer.
//!
//! `HOOKLEDGER__SECTION__KEY` reaches every key. The short names below are the ones people and
//! compose files set; each secret also as `NAME_FILE`. A variable with our prefix that names no key
//! is a problem; a near miss of a short name is a warning, since it may be somebody else's.

use std::ffi::{OsStr, OsString};

use toml::Value;

use super::problem::{Problem, Warning};
use super::tree::{Origin, Tree, is_secret, secret_base};

/// Short variable → key.
pub const SHORT_NAMES: &[(&str, &str)] = &[
    ("HOOK_PATH_TOKEN", "hooks.path_token"),
    ("HOOK_SHARED_SECRET", "hooks.shared_secret"),
    ("HOOK_DB", "store.path"),
    ("GEMINI_API_KEY", "gemini.api_key"),
    ("GEMINI_BASE_URL", "gemini.base_url"),
    ("GEMINI_WEBHOOK_SECRETS", "sources.gemini.signing_secrets"),
    ("HOOKLEDGER_LISTEN", "server.listen"),
    ("HOOKLEDGER_ADMIN_LISTEN", "admin.listen"),
    ("HOOKLEDGER_ADMIN_TOKEN", "admin.token"),
];

/// Names the file; read by the command line.
pub(super) const CONFIG: &str = "HOOKLEDGER_CONFIG";

const PREFIX: &str = "HOOKLEDGER__";

/// How close a name must be to a short one to be taken for a slip.
const NEAR: usize = 2;

/// Lays the environment over `tree`.
pub(super) fn overlay(
    tree: &mut Tree,
    variables: &[(OsString, OsString)],
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) {
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        if name == CONFIG {
            continue;
        }
        let Some(key) = key_of(tree, name) else {
            if let Some(near) = near_miss(tree, name) {
                warnings.push(Warning {
                    key: name.to_owned(),
                    what: format!("is read by nobody; did you mean {near}?"),
                    variable: true,
                });
            }
            continue;
        };
        if key.split('.').any(|part| part.trim().is_empty()) {
            problems.push(Problem {
                key: name.to_owned(),
                what: "names no key".to_owned(),
                fix: format!("write {PREFIX}SECTION__KEY"),
            });
            continue;
        }
        match text(value) {
            Ok(text) => {
                let origin = Origin::Env(name.to_owned());
                tree.set(key, Value::String(text), origin, problems);
            }
            Err((what, fix)) => problems.push(Problem {
                key,
                what: format!("{what} (set by {name})"),
                fix,
            }),
        }
    }
}

fn text(value: &OsStr) -> Result<String, (&'static str, String)> {
    let text = value
        .to_str()
        .ok_or_else(|| ("is not UTF-8", "write plain text".to_owned()))?;
    if text.trim().is_empty() {
        return Err((
            "is set but empty",
            "give the variable a value, or unset it to use the default".to_owned(),
        ));
    }
    Ok(text.to_owned())
}

/// The key a variable sets, if it is ours.
fn key_of(tree: &Tree, name: &str) -> Option<String> {
    if let Some(path) = name.strip_prefix(PREFIX) {
        return Some(dotted(tree, path));
    }
    let short = |name: &str| SHORT_NAMES.iter().find(|(short, _)| *short == name);
    if let Some((_, key)) = short(name) {
        return Some((*key).to_owned());
    }
    let (_, key) = short(name.strip_suffix("_FILE")?)?;
    is_secret(key).then(|| format!("{key}_file"))
}

/// `SOURCES__MY_APP__REQUIRE` → `sources.my-app.require`, when a lower layer has a source of that
/// name; names of headers have hyphens and never underscores.
fn dotted(tree: &Tree, path: &str) -> String {
    let mut key = String::new();
    for segment in path.split("__") {
        let mut segment = segment.to_ascii_lowercase();
        let names = tree.names_under(&key);
        if !names.contains(&segment) {
            let known = names.iter().find(|n| n.replace('-', "_") == segment);
            if let Some(known) = known {
                segment.clone_from(known);
            } else if is_header_section(&key) {
                segment = header_name(&segment);
            }
        }
        if !key.is_empty() {
            key.push('.');
        }
        key.push_str(&segment);
    }
    key
}

fn is_header_section(key: &str) -> bool {
    matches!(key, "gemini.extra_headers" | "traces.headers")
        || (key.starts_with("effects.") && key.ends_with(".headers"))
}

fn header_name(segment: &str) -> String {
    for suffix in ["_file", "_env"] {
        if let Some(base) = segment.strip_suffix(suffix) {
            return format!("{}{suffix}", base.replace('_', "-"));
        }
    }
    segment.replace('_', "-")
}

/// The variable that somebody who set `name` probably meant. Underscores are not counted: one in the
/// place of two is the usual slip.
fn near_miss(tree: &Tree, name: &str) -> Option<String> {
    let bare = name.strip_suffix("_FILE").unwrap_or(name);
    let ours = bare.starts_with("HOOKLEDGER_");
    let long = tree.leaves().filter(|_| ours).map(|(key, _)| long_for(key));
    SHORT_NAMES
        .iter()
        .map(|(short, _)| (*short).to_owned())
        .chain([CONFIG.to_owned()])
        .chain(long)
        .filter(|known| known != name)
        .map(|known| (distance(&known, bare), known))
        .filter(|(far, _)| *far <= NEAR)
        .min_by_key(|(far, _)| *far)
        .map(|(_, known)| known)
}

fn distance(a: &str, b: &str) -> usize {
    let plain = |name: &str| name.replace("__", "_");
    strsim::levenshtein(&plain(a), &plain(b))
}

fn long_for(key: &str) -> String {
    let path = key.replace('.', "__").replace('-', "_");
    format!("{PREFIX}{}", path.to_ascii_uppercase())
}

/// How a key is named in the environment, shortest first: for the fix of a missing one.
pub(super) fn variable_for(key: &str) -> String {
    let base = secret_base(key).unwrap_or(key);
    SHORT_NAMES
        .iter()
        .find(|(_, k)| *k == base)
        .map_or_else(|| long_for(base), |(short, _)| (*short).to_owned())
}
