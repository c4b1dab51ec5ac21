//! `check`: the configuration as `serve` would find it, and whether the store's directory is there.
//! Opens nothing.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::Global;
use super::failure::Failure;
use super::load;
use super::output::{Output, cell, printable};
use crate::config::{Loaded, Problem, Problems};
use crate::verify::{KeySource, NoKeys, Verifier};

pub(super) fn run(global: &Global, output: &Output) -> Result<(), Failure> {
    match usable(global)? {
        Ok(loaded) => good(&loaded, output),
        Err(problems) => bad(problems, output),
    }
}

/// The configuration that `serve` would start with, or all that keeps it from starting.
pub(super) fn usable(global: &Global) -> Result<Result<Loaded, Problems>, Failure> {
    let loaded = load::for_serve(global)?;
    Ok(loaded.and_then(|loaded| match unusable(&loaded) {
        None => Ok(loaded),
        Some(problems) => Err(problems),
    }))
}

/// What only shows when the parts are built.
fn unusable(loaded: &Loaded) -> Option<Problems> {
    let settings = &loaded.settings;
    let keys: Arc<dyn KeySource> = Arc::new(NoKeys);
    let problems = Verifier::new(&settings.hooks, &settings.sources, &keys).err();
    let line = |problem: &crate::verify::SetupProblem| Problem {
        key: "sources".to_owned(),
        what: problem.to_string(),
        fix: "see the table of keys in config/default.toml".to_owned(),
    };
    let problems = problems.iter().flatten().map(line);
    let all: Vec<Problem> = problems.chain(no_place(&settings.store.path)).collect();
    (!all.is_empty()).then_some(Problems(all))
}

/// The store makes its file, never its directory: one that is missing is a mistyped path or a volume
/// that is not mounted.
fn no_place(store: &Path) -> Option<Problem> {
    let directory = match store.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let what = if directory.is_dir() {
        return None;
    } else if directory.exists() {
        "lies in something that is not a directory"
    } else {
        "lies in a directory that does not exist"
    };
    Some(Problem {
        key: "store.path".to_owned(),
        what: format!("{what} ({})", directory.display()),
        fix: "make it, mount the volume there, or correct the path (HOOK_DB)".to_owned(),
    })
}

fn bad(problems: Problems, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        let list: Vec<Value> = problems
            .0
            .iter()
            .map(|p| json!({"key": p.key, "what": p.what, "fix": p.fix}))
            .collect();
        output.answer(&json!({"ok": false, "problems": list}), |_| String::new())?;
    }
    Err(problems.into())
}

fn good(loaded: &Loaded, output: &Output) -> Result<(), Failure> {
    let warnings: Vec<Value> = loaded
        .warnings
        .iter()
        .map(|w| json!({"key": w.key, "what": w.what}))
        .collect();
    let document = json!({
        "ok": true,
        "warnings": warnings,
        "effective": loaded.effective.to_json(),
    });
    output.answer(&document, |out| {
        let mut text = String::new();
        for warning in &loaded.warnings {
            _ = writeln!(text, "warning: {}", printable(&warning.to_string()));
        }
        let rows: Vec<Value> = loaded
            .effective
            .entries()
            .iter()
            .map(|e| {
                let value = cell(Some(&e.value));
                json!({"key": e.key, "value": value, "from": e.origin.to_string()})
            })
            .collect();
        text.push_str(&out.table(
            &rows,
            &[("KEY", "key"), ("VALUE", "value"), ("FROM", "from")],
        ));
        text.push_str("the configuration is good\n");
        text
    })
}
