//! Putting the recorder in place, describing the table, rendering the page.
//!
//! Counters exist from the start with zero: a series that appears only with its first failure cannot
//! be alerted on, since its rate has no beginning.

use std::sync::OnceLock;

use metrics::{
    Unit as TheirUnit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use super::table::{ALL, Kind, Label, Metric, Unit, Words};

/// The numbers, ready to be rendered.
#[derive(Debug, Clone)]
pub struct Metrics(PrometheusHandle);

static INSTALLED: OnceLock<Metrics> = OnceLock::new();

impl Metrics {
    /// Installs the process's recorder, once; later calls answer with the same handle. `None` when
    /// somebody else has installed a recorder of another make.
    pub fn install() -> Option<Self> {
        let (recorder, handle) = Self::local();
        if metrics::set_global_recorder(recorder).is_ok() {
            return Some(INSTALLED.get_or_init(|| handle).clone());
        }
        INSTALLED.get().cloned()
    }

    /// A recorder of its own, for `metrics::with_local_recorder`.
    pub fn local() -> (PrometheusRecorder, Self) {
        let mut builder = PrometheusBuilder::new();
        for metric in ALL {
            if let Kind::Histogram(buckets) = metric.kind {
                builder = with_buckets(builder, metric.name, buckets);
            }
        }
        let recorder = builder.build_recorder();
        let handle = Self(recorder.handle());
        (recorder, handle)
    }

    /// The page, in Prometheus' text format.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Folds what histograms have gathered; to be called every few seconds, or they only grow.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

#[expect(
    clippy::expect_used,
    reason = "refused only without buckets; the table is a constant and its test sees that it has some"
)]
fn with_buckets(builder: PrometheusBuilder, name: &str, buckets: &[f64]) -> PrometheusBuilder {
    builder
        .set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)
        .expect("a histogram of the table has buckets")
}

/// Describes every metric and makes every counter and gauge exist, for these sources, effects
/// and loops.
pub fn describe_all(sources: &[&str], effects: &[&str], loops: &[&str]) {
    for metric in ALL {
        describe(metric);
        for labels in series(metric.labels, sources, effects, loops) {
            match metric.kind {
                Kind::Counter => counter!(metric.name, &labels).increment(0),
                Kind::Gauge => gauge!(metric.name, &labels).increment(0.0),
                Kind::Histogram(_) => {}
            }
        }
    }
}

fn describe(metric: &Metric) {
    let unit = match metric.unit {
        Unit::Count => TheirUnit::Count,
        Unit::Seconds => TheirUnit::Seconds,
        Unit::Bytes => TheirUnit::Bytes,
    };
    match metric.kind {
        Kind::Counter => describe_counter!(metric.name, unit, metric.about),
        Kind::Gauge => describe_gauge!(metric.name, unit, metric.about),
        Kind::Histogram(_) => describe_histogram!(metric.name, unit, metric.about),
    }
}

/// Every combination of the labels' words.
fn series(
    labels: &[Label],
    sources: &[&str],
    effects: &[&str],
    loops: &[&str],
) -> Vec<Vec<(&'static str, String)>> {
    let mut all: Vec<Vec<(&'static str, String)>> = vec![Vec::new()];
    for label in labels {
        let words = match label.words {
            Words::Listed(words) => words,
            Words::Sources => sources,
            Words::Effects => effects,
            Words::Loops => loops,
        };
        all = all
            .into_iter()
            .flat_map(|so_far| {
                words.iter().map(move |word| {
                    let mut with = so_far.clone();
                    with.push((label.name, (*word).to_owned()));
                    with
                })
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::record as m;
    use super::*;
    use crate::base::clock::Timestamp;

    fn page(act: impl FnOnce()) -> String {
        let (recorder, handle) = Metrics::local();
        metrics::with_local_recorder(&recorder, act);
        handle.upkeep();
        handle.render()
    }

    #[test]
    fn everything_is_described_and_counters_begin_at_zero() {
        let page = page(|| describe_all(&["gemini", "app"], &["notify"], &["worker"]));
        for metric in ALL {
            if matches!(metric.kind, Kind::Histogram(_)) {
                continue;
            }
            let help = format!("# HELP {} {}\n", metric.name, metric.about);
            assert!(page.contains(&help), "{help}");
        }
        let line = "hookledger_deliveries_total{source=\"app\",verdict=\"duplicate\"} 0\n";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("hookledger_effects_total{effect=\"notify\",state=\"dead\"} 0\n"));
        assert!(page.contains("hookledger_dead_letters 0\n"));
    }

    #[test]
    fn facts_reach_their_series_and_junk_stays_bounded() {
        let page = page(|| {
            m::delivery("gemini", "accepted");
            m::delivery("gemini", "accepted");
            m::refusal(None, "unknown_source");
            m::refusal(Some("gemini"), "too_old");
            m::refusal(Some("gemini"), "canary");
            m::commit(3, Duration::from_millis(4));
            m::queue(7, Duration::from_millis(1500), 2);
            m::settled("webhook", "succeeded", Some(Duration::from_secs(61)));
            m::effect_attempt("notify", "retry", Duration::from_millis(20));
            m::loop_restarts("worker", 4);
            m::loop_age("worker", Duration::from_secs(7), Duration::from_mins(2));
            m::claimed("webhook", Duration::from_millis(30));
            m::settled_after_end("reconcile", Duration::from_secs(61));
            m::started(Timestamp::from_millis(1_500));
            m::disk_low(1 << 30);
            m::store_size(4096, 512, 1 << 40);
        });
        for line in [
            "hookledger_deliveries_total{source=\"gemini\",verdict=\"accepted\"} 2",
            "hookledger_refusals_total{source=\"unknown\",reason=\"unknown_source\"} 1",
            "hookledger_refusals_total{source=\"gemini\",reason=\"too_old\"} 1",
            "hookledger_signed_too_old_total{source=\"gemini\"} 1",
            "hookledger_refusals_total{source=\"gemini\",reason=\"other\"} 1",
            "hookledger_commits_total 1",
            "hookledger_commit_group_size_bucket{le=\"2\"} 0",
            "hookledger_commit_group_size_bucket{le=\"4\"} 1",
            "hookledger_queue_depth 7",
            "hookledger_oldest_due_seconds 1.5",
            "hookledger_settled_total{settled_by=\"webhook\",state=\"succeeded\"} 1",
            "hookledger_settle_lag_seconds_bucket{le=\"60\"} 0",
            "hookledger_settle_lag_seconds_bucket{le=\"300\"} 1",
            "hookledger_effect_attempts_total{effect=\"notify\",outcome=\"retry\"} 1",
            "hookledger_loop_restarts_total{loop=\"worker\"} 4",
            "hookledger_store_bytes{file=\"wal\"} 512",
            "hookledger_loop_age_seconds{loop=\"worker\"} 7",
            "hookledger_loop_bound_seconds{loop=\"worker\"} 120",
            "hookledger_queue_lag_seconds_bucket{reason=\"webhook\",le=\"0.025\"} 0",
            "hookledger_queue_lag_seconds_bucket{reason=\"webhook\",le=\"0.1\"} 1",
            "hookledger_end_lag_seconds_bucket{settled_by=\"reconcile\",le=\"60\"} 0",
            "hookledger_end_lag_seconds_bucket{settled_by=\"reconcile\",le=\"300\"} 1",
            concat!(
                "hookledger_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1"
            ),
            "hookledger_start_time_seconds 1.5",
            "hookledger_disk_low_bytes 1073741824",
        ] {
            assert!(
                page.contains(&format!("{line}\n")),
                "{line}\nnot in\n{page}"
            );
        }
        assert!(!page.contains("canary"));
    }

    #[test]
    fn every_series_on_the_page_is_in_the_table() {
        let page = page(|| describe_all(&["gemini"], &["notify"], &["worker"]));
        for line in page
            .lines()
            .filter(|l| !l.starts_with('#') && !l.is_empty())
        {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(ALL.iter().any(|m| m.name == name), "{line}");
        }
    }

    #[test]
    fn histograms_have_rising_buckets() {
        for metric in ALL {
            if let Kind::Histogram(buckets) = metric.kind {
                assert!(buckets.len() > 1 && buckets.is_sorted(), "{}", metric.name);
            }
        }
    }

    #[test]
    fn installing_twice_answers_with_the_same_numbers() {
        let (first, second) = (Metrics::install().unwrap(), Metrics::install().unwrap());
        counter!("hookledger_adopted_total").increment(1);
        assert!(first.render().contains("hookledger_adopted_total 1"));
        assert_eq!(first.render(), second.render());
    }
}
