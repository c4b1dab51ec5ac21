//! `docs/METRICS.md` is what the table of metrics says. `UPDATE_DOCS=1` writes it anew.

use std::fmt::Write as _;

use hookledger::app::LOOPS;
use hookledger::telemetry::metrics::table::{self as t, Kind, Label, Metric, Unit, Words};

use crate::support::document;

const HEAD: &str = "# Metrics

`GET /metrics` on the operator's listener, in Prometheus' text format, without a token: it holds numbers
and configured names, never a secret or a body. `config/prometheus.yml` scrapes it, `config/alerts.yml`
has the rules (what to do about each stands in [OPERATIONS.md](OPERATIONS.md#when-an-alert-fires)), and
`config/grafana/` a dashboard.

Counters and gauges exist from the start, with zero, for every word their labels may take; histograms
appear with their first value. Labels are bounded: a word that no list has is counted as `other`, and
`source` and `effect` are names of the configuration (`unknown` when a path names no source). Gauges are
brought up to date when the page is asked for.

This page is made of the table in `src/telemetry/metrics/table.rs`; a test compares the two
(`UPDATE_DOCS=1 cargo test --locked --test it metrics::document` writes it).
";

#[test]
fn the_page_is_what_the_table_says() {
    document::check("docs/METRICS.md", &page());
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for metric in t::ALL {
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{}`", label.name))
            .collect();
        let (kind, about) = (kind(metric), metric.about);
        let labels = labels.join(", ");
        writeln!(page, "| `{}` | {kind} | {labels} | {about} |", metric.name).unwrap();
    }
    page.push_str("\n## Labels\n\n| metric | label | words |\n|---|---|---|\n");
    for metric in t::ALL {
        for label in metric.labels {
            let words = words(label);
            writeln!(page, "| `{}` | `{}` | {words} |", metric.name, label.name).unwrap();
        }
    }
    page.push_str("\n## Buckets\n\n| metric | upper bounds |\n|---|---|\n");
    for metric in t::ALL {
        if let Kind::Histogram(buckets) = metric.kind {
            let bounds: Vec<_> = buckets.iter().map(ToString::to_string).collect();
            writeln!(page, "| `{}` | {} |", metric.name, bounds.join(", ")).unwrap();
        }
    }
    page
}

fn kind(metric: &Metric) -> String {
    let unit = match metric.unit {
        Unit::Count => "",
        Unit::Seconds => ", seconds",
        Unit::Bytes => ", bytes",
    };
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    };
    format!("{kind}{unit}")
}

fn words(label: &Label) -> String {
    match label.words {
        // The version changes with each release; the page must not.
        Words::Listed(_) if *label == t::VERSION => "the program's version".to_owned(),
        Words::Listed(words) => quoted(words),
        Words::Sources => "the configured sources, and `unknown`".to_owned(),
        Words::Effects => "the configured effects".to_owned(),
        Words::Loops => quoted(&LOOPS),
    }
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(" ")
}
