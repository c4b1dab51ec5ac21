//! The configuration: it is believed whole or refused with keys, and never repeats a secret.
//!
//! The input is a configuration file. Comments steer: `#env NAME=VALUE` is a variable, `#flag
//! KEY=VALUE` a flag, `#client` loads it for a command that only reads.

use std::sync::Arc;

use hookledger::config::{self, Inputs, LEASE_MARGIN, Loaded, Problems, Purpose};
use hookledger::verify::{NoKeys, Verifier};
use toml::{Table, Value};

const DOORS: [(&str, &str); 2] = [
    ("HOOK_PATH_TOKEN", "a-path-token-only-for-tests-0123456789"),
    ("HOOK_SHARED_SECRET", "a-shared-secret-for-tests-0123456789"),
];
/// A value with this in it must never be shown.
const CANARY: &str = "Zq7canary";

pub(super) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let table = text.parse::<Table>().ok().map(Value::Table);
    if table.as_ref().is_some_and(names_a_file) || text.contains("_FILE") {
        // What lies on this machine is none of this target's business.
        return;
    }
    let mut inputs = Inputs::new().with_text(text).with_environment(DOORS);
    let mut purpose = Purpose::Serve;
    for line in text.lines() {
        if line == "#client" {
            purpose = Purpose::Client;
        } else if let Some((name, value)) = steered(line, "#env ") {
            // No process can be given another kind.
            if !name.is_empty() && !line.contains('\0') {
                inputs = inputs.with_environment([(name, value)]);
            }
        } else if let Some((key, value)) = steered(line, "#flag ") {
            // A flag's key is one of ours, never what somebody typed.
            if !key.trim().is_empty() {
                inputs = inputs.with_flag(key, value);
            }
        }
    }
    let loaded = config::load(&inputs, purpose);
    match &loaded {
        Ok(loaded) => believed(loaded, purpose),
        Err(Problems(problems)) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(!problem.key.trim().is_empty(), "{problem}");
                assert!(
                    !problem.what.is_empty() && !problem.fix.is_empty(),
                    "{problem}"
                );
            }
        }
    }
    if table.is_some_and(|t| !in_a_key(&t)) && !steers_by_a_canary(text) {
        let shown = match &loaded {
            // What is no secret may be shown once it is believed.
            Ok(loaded) => format!("{:?}", loaded.settings.hooks),
            Err(problems) => format!("{problems} {problems:?}"),
        };
        assert!(!shown.contains(CANARY), "{shown}");
    }
}

fn steered<'t>(line: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    line.strip_prefix(word)?.split_once('=')
}

/// Whether a variable or a flag is itself called so.
fn steers_by_a_canary(text: &str) -> bool {
    text.lines().any(|line| {
        ["#env ", "#flag "]
            .iter()
            .filter_map(|word| steered(line, word))
            .any(|(name, _)| name.contains(CANARY))
    })
}

fn believed(loaded: &Loaded, purpose: Purpose) {
    let settings = &loaded.settings;
    assert!(settings.worker.lease >= settings.gemini.timeout + LEASE_MARGIN);
    assert!(settings.worker.fresh_slots < settings.worker.concurrency);
    if purpose == Purpose::Serve {
        let token = settings.hooks.path_token.as_ref().unwrap();
        assert_eq!(token.weakness(), None);
        let keys: Arc<dyn hookledger::verify::KeySource> = Arc::new(NoKeys);
        let verifier = Verifier::new(&settings.hooks, &settings.sources, &keys);
        assert!(verifier.is_ok(), "{:?}", verifier.err());
    }
    let mut lines = loaded.effective.entries().iter();
    assert!(lines.all(|entry| !entry.key.is_empty()));
}

fn any_leaf(value: &Value, wanted: &dyn Fn(&str, &Value) -> bool) -> bool {
    match value {
        Value::Table(table) => table
            .iter()
            .any(|(key, inner)| wanted(key, inner) || any_leaf(inner, wanted)),
        Value::Array(list) => list.iter().any(|inner| any_leaf(inner, wanted)),
        _ => false,
    }
}

fn names_a_file(table: &Value) -> bool {
    any_leaf(table, &|key, _| key.ends_with("_file"))
}

fn in_a_key(table: &Value) -> bool {
    any_leaf(table, &|key, _| key.contains(CANARY))
}
