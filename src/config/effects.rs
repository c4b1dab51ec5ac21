//! `[[effects]]`, read into rules and actions.

use std::path::PathBuf;

use super::read::Reader;
use super::sections::{headers, is_name, nowhere};
use super::settings::{Action, Effect};
use crate::base::secret::Secret;
use crate::domain::effect::{AmbiguousPolicy, EffectRule, Trigger};

#[derive(Clone, Copy)]
enum Type {
    Http,
    Results,
    Command,
    Slack,
}

const TYPES: [(&str, Type); 4] = [
    ("http", Type::Http),
    ("results", Type::Results),
    ("command", Type::Command),
    ("slack", Type::Slack),
];

const POLICIES: [(&str, Option<AmbiguousPolicy>); 3] = [
    ("auto", None),
    ("retry", Some(AmbiguousPolicy::Retry)),
    ("hold", Some(AmbiguousPolicy::Hold)),
];

/// Reads every effect, in the order of the file.
pub(super) fn effects(r: &mut Reader<'_>) -> Vec<Effect> {
    // Read once here, so that a mistake in them is told also when there is no effect.
    r.word("each_effect.ambiguous", None, &POLICIES, None);
    r.string("each_effect.job_kind", "a glob", "a glob such as nightly-*");
    r.list("each_effect.on", None);
    r.duration("each_effect.timeout");
    r.duration("each_effect.results_timeout");
    r.flag_or("each_effect.allow_private", "each_effect.allow_private");
    let places = r.tables("effects");
    let effects: Vec<Effect> = places.iter().map(|at| effect(r, at)).collect();
    for (i, effect) in effects.iter().enumerate() {
        let name = &effect.rule.name;
        if effects.iter().take(i).any(|e| e.rule.name == *name) && !name.is_empty() {
            let key = format!("effects.{i}.name");
            let fix = "give each effect a name of its own: it is part of its idempotency keys";
            r.problem(&key, "is the name of an earlier effect too", fix);
        }
    }
    effects
}

fn effect(r: &mut Reader<'_>, at: &str) -> Effect {
    let key = |name: &str| format!("effects.{at}.{name}");
    if at.parse::<usize>().is_err() {
        let what = "is not a place in a list of effects";
        r.problem(&format!("effects.{at}"), what, "write [[effects]] above it");
    }
    let name = r.string(&key("name"), "a text", "a name such as notify");
    if !is_name(&name, 64) && r.sound(&[&key("name")]) {
        let fix = "use 1 to 64 characters from A-Z a-z 0-9 . _ -";
        r.problem(&key("name"), "is not a legal name", fix);
    }
    let kind = r.word(&key("kind"), None, &TYPES, Type::Http);
    let kind = r.sound(&[&key("kind")]).then_some(kind);
    let job_kind = r.string_or(
        &key("job_kind"),
        "each_effect.job_kind",
        "a glob such as nightly-*",
    );
    if job_kind.is_empty() && r.sound(&[&key("job_kind")]) {
        r.problem(
            &key("job_kind"),
            "is empty",
            "write \"*\" for every job kind",
        );
    }
    let policy = r.word(
        &key("ambiguous"),
        Some("each_effect.ambiguous"),
        &POLICIES,
        None,
    );
    let usual = match kind {
        Some(Type::Command) => AmbiguousPolicy::Hold,
        _ => AmbiguousPolicy::Retry,
    };
    Effect {
        rule: EffectRule {
            name,
            job_kind,
            on: triggers(r, &key("on")),
            ambiguous: policy.unwrap_or(usual),
        },
        timeout: r.duration_or(&key("timeout"), usual_timeout(kind)),
        action: action(r, at, kind),
    }
}

/// A download of gigabytes may take much longer than anything else that is sent.
fn usual_timeout(kind: Option<Type>) -> &'static str {
    match kind {
        Some(Type::Results) => "each_effect.results_timeout",
        _ => "each_effect.timeout",
    }
}

fn triggers(r: &mut Reader<'_>, key: &str) -> Vec<Trigger> {
    let words = r.list(key, Some("each_effect.on"));
    let mut triggers: Vec<Trigger> = Vec::new();
    for word in &words {
        match Trigger::from_word(word) {
            Some(trigger) if !triggers.contains(&trigger) => triggers.push(trigger),
            Some(_) => {}
            None => {
                let what = "has a word that is neither an ending nor a flag";
                r.problem(key, what, format!("use {}", endings().join(", ")));
                break;
            }
        }
    }
    if words.is_empty() && r.sound(&[key]) {
        let fix = "name an ending such as succeeded, or leave the key out";
        r.problem(key, "is empty, so the effect would never act", fix);
    }
    triggers
}

fn endings() -> Vec<&'static str> {
    use crate::domain::operation::OperationState;
    OperationState::ALL
        .into_iter()
        .map(OperationState::as_str)
        .chain(["requires_action", "overdue"])
        .filter(|word| Trigger::from_word(word).is_some())
        .collect()
}

fn action(r: &mut Reader<'_>, at: &str, kind: Option<Type>) -> Action {
    let key = |name: &str| format!("effects.{at}.{name}");
    let private = "each_effect.allow_private";
    match kind {
        Some(Type::Http) => {
            let url = r.url(&key("url"));
            if url.is_none() && r.sound(&[&key("url")]) {
                r.problem(&key("url"), "is missing", "write where to POST to");
            }
            Action::Http {
                url: url.unwrap_or_else(nowhere),
                secret: r.secret(&key("secret")),
                allow_private: r.flag_or(&key("allow_private"), private),
                headers: headers(r, &key("headers")),
            }
        }
        Some(Type::Results) => Action::Results {
            directory: r.path(&key("directory")),
        },
        Some(Type::Command) => {
            let argv = r.list(&key("argv"), None);
            if argv.first().is_none_or(String::is_empty) && r.sound(&[&key("argv")]) {
                let fix = "write [\"/path/of/program\", \"argument\"]";
                r.problem(&key("argv"), "names no program", fix);
            }
            Action::Command { argv }
        }
        Some(Type::Slack) => {
            let webhook_url = r.secret(&key("webhook_url"));
            match &webhook_url {
                None if r.sound(&[&key("webhook_url")]) => {
                    let fix = "write the address of the incoming webhook";
                    r.problem(&key("webhook_url"), "is missing", fix);
                }
                Some(url) if !is_http(url) => not_http(r, &key("webhook_url")),
                _ => {}
            }
            Action::Slack {
                webhook_url: webhook_url.unwrap_or_else(|| Secret::new("")),
                allow_private: r.flag_or(&key("allow_private"), private),
            }
        }
        None => {
            every_key(r, at);
            Action::Results {
                directory: PathBuf::new(),
            }
        }
    }
}

/// Without a kind a key of any kind may be meant: what is set is read as its kind would read it, and
/// nothing is missing.
fn every_key(r: &mut Reader<'_>, at: &str) {
    let key = |name: &str| format!("effects.{at}.{name}");
    r.url(&key("url"));
    r.secret(&key("secret"));
    r.flag_or(&key("allow_private"), "each_effect.allow_private");
    headers(r, &key("headers"));
    if r.leaf(&key("directory")).is_some() {
        r.path(&key("directory"));
    }
    if r.leaf(&key("argv")).is_some() {
        r.list(&key("argv"), None);
    }
    if let Some(url) = r.secret(&key("webhook_url"))
        && !is_http(&url)
    {
        not_http(r, &key("webhook_url"));
    }
}

fn not_http(r: &mut Reader<'_>, key: &str) {
    let fix = "write the https address of the incoming webhook";
    r.problem(key, "is not an http address", fix);
}

fn is_http(url: &Secret) -> bool {
    url::Url::parse(url.expose())
        .is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.username().is_empty())
}
