//! Rules, dashboard and runbook speak of what there is: metrics and labels of the table, and each rule
//! has its entry in the runbook and its case in the rules' test.

use std::collections::BTreeSet;

use hookledger::reconcile::DEAD_ALERT;
use hookledger::reconcile::rescued::RESCUED_ALERT;
use hookledger::reconcile::subscription as s;
use hookledger::reconcile::watch::DISK_ALERT;
use hookledger::telemetry::metrics::table::{ALL, Kind, Metric, Words};
use hookledger::work::step::KEY_ALERT;
use serde_json::Value;

const RULES: &str = include_str!("../../../config/alerts.yml");
const CASES: &str = include_str!("../../../config/alerts_test.yml");
const DASHBOARD: &str = include_str!("../../../config/grafana/hookledger.json");
const RUNBOOK: &str = include_str!("../../../docs/OPERATIONS.md");
const PREFIX: &str = "hookledger_";

/// The metric that a name on the page belongs to.
fn metric(name: &str) -> Option<&'static Metric> {
    let of_histogram = ["_bucket", "_sum", "_count"];
    let base = of_histogram.iter().find_map(|end| name.strip_suffix(end));
    ALL.iter().find(|metric| match metric.kind {
        Kind::Histogram(_) => Some(metric.name) == base,
        _ => metric.name == name,
    })
}

/// Each name of a metric in `text` with the selector that follows it.
fn named(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(PREFIX) {
        let rest = text.get(at..).unwrap();
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let selector = after.strip_prefix('{').and_then(|s| s.split('}').next());
        found.push((name, selector.unwrap_or_default()));
    }
    found
}

/// Labels that Prometheus adds, or that a histogram has.
const THEIRS: [&str; 4] = ["instance", "job", "le", "alertname"];

fn check(what: &str, text: &str) {
    let names = named(text);
    assert!(names.len() > 20, "{what}: {names:?}");
    for (name, selector) in names {
        let metric = metric(name).unwrap_or_else(|| panic!("{what}: there is no {name}"));
        for matcher in selector.split(", ").filter(|m| !m.is_empty()) {
            let (label, value) = matcher.split_once(['=', '!']).unwrap();
            if THEIRS.contains(&label) {
                continue;
            }
            let label = metric.labels.iter().find(|l| l.name == label);
            let label = label.unwrap_or_else(|| panic!("{what}: {name} has no {matcher}"));
            let Words::Listed(words) = label.words else {
                continue;
            };
            for word in value
                .trim_start_matches(['=', '~', '"'])
                .trim_end_matches('"')
                .split('|')
            {
                assert!(words.contains(&word), "{what}: {name} never says {word}");
            }
        }
    }
}

/// What the JSON's texts say; in the file their quotes are escaped.
fn texts(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            into.push_str(text);
            into.push('\n');
        }
        Value::Array(all) => all.iter().for_each(|one| texts(one, into)),
        Value::Object(all) => all.values().for_each(|one| texts(one, into)),
        _ => {}
    }
}

#[test]
fn rules_and_dashboard_name_only_what_there_is() {
    check("alerts.yml", RULES);
    check("alerts_test.yml", CASES);
    let mut shown = String::new();
    texts(&serde_json::from_str(DASHBOARD).unwrap(), &mut shown);
    check("the dashboard", &shown);
}

fn rules() -> BTreeSet<&'static str> {
    let names = RULES
        .lines()
        .filter_map(|l| l.trim().strip_prefix("- alert: "));
    names.collect()
}

#[test]
fn every_rule_has_its_entry_in_the_runbook_and_a_case_that_fires_it() {
    let (_, section) = RUNBOOK.split_once("\n## When an alert fires\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let entries = section.lines().filter_map(|l| l.strip_prefix("### "));
    assert_eq!(rules(), entries.collect::<BTreeSet<_>>());
    for rule in rules() {
        let anchor = format!("runbook: docs/OPERATIONS.md#{}\n", rule.to_lowercase());
        assert!(RULES.contains(&anchor), "{rule} does not lead to its entry");
        let case = format!("'{{alertname=\"{rule}\"}}'");
        assert!(CASES.contains(&case), "no case fires {rule}");
    }
}

#[test]
fn each_alert_of_its_own_stands_in_the_table_of_repairs() {
    let of_one = [
        "operation/…/overdue",
        "operation/…/gone",
        "effect/…",
        "loop/…",
    ];
    let whole = [
        KEY_ALERT,
        DEAD_ALERT,
        RESCUED_ALERT,
        DISK_ALERT,
        s::STATE_ALERT,
        s::DRIFT_ALERT,
        s::CANARY_ALERT,
        s::ROTATION_ALERT,
    ];
    for subject in whole.into_iter().chain(of_one) {
        let row = format!("| alert `{subject}`");
        assert!(RUNBOOK.contains(&row), "{row}");
    }
}
