//! The exporter alone: what finds no room, what a stop sends, and what it gives up, counted.

use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock, Timestamp};
use hookledger::base::shutdown::Shutdown;
use hookledger::telemetry::metrics::Metrics;
use hookledger::telemetry::traces::{Exporter, Kind, Options, Span, Trace, Traces};

use super::collector::Collector;

fn traces(url: &str, sample_percent: u8) -> (Traces, Exporter) {
    let options = Options {
        endpoint: url.parse().unwrap(),
        headers: Vec::new(),
        service_name: "test".to_owned(),
        sample_percent,
    };
    Traces::new(&options, Arc::new(SystemClock::new())).unwrap()
}

fn span(n: u32) -> Span {
    let trace = Trace::of_operation(&format!("batches/{n}"));
    Span {
        at: trace.root(),
        parent: None,
        name: "operation".to_owned(),
        kind: Kind::Internal,
        began: Timestamp::from_millis(1),
        took: Duration::from_millis(2),
        attributes: Vec::new(),
        link: None,
        error: None,
    }
}

/// Runs the exporter's loop in a group that is stopped at once: what waits is flushed, or not.
async fn stopped(exporter: Exporter, patience: Duration) -> Duration {
    let clock = Arc::new(SystemClock::new());
    let group = Shutdown::new(clock.clone());
    let (exporter, stop) = (Arc::new(exporter), group.clone());
    group.begin();
    group.spawn_loop("traces", move |heart| {
        Arc::clone(&exporter).run_loop(stop.clone(), heart)
    });
    let began = clock.monotonic();
    group.drain(patience).await;
    clock.monotonic().saturating_sub(began)
}

fn counted(page: &str, outcome: &str) -> u64 {
    let line = format!("hookledger_trace_spans_total{{outcome=\"{outcome}\"}} ");
    let found = page.lines().find_map(|l| l.strip_prefix(&line));
    found.map_or(0, |n| n.parse().unwrap())
}

#[tokio::test]
async fn what_finds_the_queue_full_is_counted_and_a_stop_exports_the_rest() {
    let (recorder, metrics) = Metrics::local();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let collector = Collector::start().await;
    let (traces, exporter) = traces(&collector.url, 100);
    for n in 0..5_000 {
        traces.record(|| span(n));
    }
    assert_eq!(counted(&metrics.render(), "queue_full"), 5_000 - 4_096);
    stopped(exporter, Duration::from_secs(10)).await;
    assert_eq!(collector.spans().len(), 4_096);
    assert_eq!(counted(&metrics.render(), "exported"), 4_096);
    assert_eq!(counted(&metrics.render(), "undelivered"), 0);
}

#[tokio::test]
async fn a_stop_gives_up_what_no_collector_takes_and_says_how_much() {
    let (recorder, metrics) = Metrics::local();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let collector = Collector::start().await;
    collector.refuses(Some(503));
    let (traces, exporter) = traces(&collector.url, 100);
    for n in 0..600 {
        traces.record(|| span(n));
    }
    stopped(exporter, Duration::from_secs(10)).await;
    assert_eq!(collector.refused(), 2, "each batch is tried once");
    assert_eq!(counted(&metrics.render(), "undelivered"), 600);
}

/// A listener that never answers: the stop does not wait for it.
#[tokio::test]
async fn a_collector_that_hangs_holds_up_no_stop() {
    let (recorder, metrics) = Metrics::local();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", silent.local_addr().unwrap());
    let (traces, exporter) = traces(&url, 100);
    for n in 0..600 {
        traces.record(|| span(n));
    }
    let took = stopped(exporter, Duration::from_millis(300)).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(counted(&metrics.render(), "undelivered"), 600);
}

#[tokio::test]
async fn only_the_share_that_is_asked_for_is_exported() {
    let collector = Collector::start().await;
    let (traces, exporter) = traces(&collector.url, 25);
    for n in 0..2_000 {
        traces.record(|| span(n));
    }
    stopped(exporter, Duration::from_secs(10)).await;
    let spans = collector.spans().len();
    assert!((400..600).contains(&spans), "{spans}");
    let flags = (0..2_000).map(|n| traces.traceparent(&span(n).at).unwrap());
    let sampled = flags.filter(|text| text.ends_with("-01")).count();
    assert_eq!(sampled, spans, "receivers are told which are");
}
