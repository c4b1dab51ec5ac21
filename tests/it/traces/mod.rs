//! Traces, through the real program: one from a delivery to its last effect over a restart; nothing
//! slower or louder for a collector that is down; nothing at all when nobody asks for them.

mod collector;
mod exporter;

use std::collections::BTreeSet;

use hookledger::config::{Inputs, Purpose};
use hookledger::simulator::{Fault, FaultKind};
use hookledger::telemetry::traces::Trace;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;

use self::collector::{Collector, text};
use crate::support::process::eventually;
use crate::support::stand::{
    ADMIN_TOKEN, API_KEY, PATH_TOKEN, SHARED, SIGNING, SINK_SECRET, SOON, Stand, silent, succeeded,
};

/// Marked like the other secrets: it must reach the collector in its header and nowhere else.
const AUTHORIZATION: &str = "Bearer canary-collector-token-2468ace13579bdf0";
/// What a delivery's body says beside what is read from it.
const IN_THE_BODY: &str = "canary-words-in-a-body";
const SENDER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn stand(collector: &Collector, more: &[(&str, &str)]) -> Stand {
    let endpoint = format!("'{}'", collector.url);
    let authorization = format!("'{AUTHORIZATION}'");
    let mut set = vec![
        ("traces.endpoint", endpoint.as_str()),
        ("traces.headers.authorization", authorization.as_str()),
        // Nobody but the webhook's item may settle it.
        ("reconcile.grace", "'10m'"),
    ];
    set.extend(more);
    Stand::with(&set).await
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_trace_from_a_delivery_to_its_effect_over_a_restart_and_no_secret_in_it() {
    let collector = Collector::start().await;
    let mut stand = stand(
        &collector,
        &[("traces.service_name", "'ledger-under-test'")],
    )
    .await;
    let name = stand.gemini.start(silent(false)).unwrap();
    let down = Fault::once(FaultKind::ServerError).method("GET").on(&name);
    stand.gemini.fault(down.times(0));

    let body = json!({"type": "batch.succeeded", "data": {"id": name}, "note": IN_THE_BODY});
    let delivery = stand.signed("told", body.to_string());
    let answer = delivery.header("traceparent", SENDER).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    // Nobody's: a ping has a trace of its own, a forged one none.
    assert_eq!(stand.deliver("ping", r#"{"type":"ping"}"#).await.0, 200);
    let forged = stand
        .signed("forged", succeeded(&name))
        .header("webhook-id", "other");
    assert_eq!(forged.send().await.unwrap().status(), 401);
    eventually(
        "the delivery and a look that failed are exported",
        SOON,
        async || {
            let both =
                collector.named("delivery").len() == 2 && !collector.named("fetch").is_empty();
            both.then_some(())
        },
    )
    .await;
    stand.kill().await;

    stand.gemini.clear_faults();
    stand.sink.answer_next([503]);
    stand.start().await;
    stand.settled(&name).await;
    let mut service = stand.take();
    service.terminate();
    assert!(service.ended(SOON).await.success());

    let story = Story::of(&collector);
    story.is_one_trace(&name, &collector.spans());
    story.stands_under_what_led_to_it();
    story.says_why_in_a_word();
    assert_eq!(
        stand.sink.traceparents(),
        story
            .effects
            .iter()
            .map(|e| Some(place(e)))
            .collect::<Vec<_>>(),
        "the receiver is told which attempt calls it"
    );
    told_nothing_secret(&collector);
    let logged = service.logged();
    assert!(!logged.contains("canary-collector-token"), "{logged}");
}

/// The spans of one operation, and of a ping beside it.
struct Story {
    operation: Span,
    ping: Span,
    delivery: Span,
    fetches: Vec<Span>,
    settle: Span,
    effects: Vec<Span>,
}

fn only(mut spans: Vec<Span>) -> Span {
    assert_eq!(spans.len(), 1, "{spans:?}");
    spans.remove(0)
}

fn place(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

fn error(span: &Span) -> Option<String> {
    text(span, "error.type")
}

impl Story {
    fn of(collector: &Collector) -> Self {
        let (pings, deliveries) = collector
            .named("delivery")
            .into_iter()
            .partition(|span| text(span, "hookledger.operation.name").is_none());
        Self {
            operation: only(collector.named("operation")),
            ping: only(pings),
            delivery: only(deliveries),
            fetches: collector.named("fetch"),
            settle: only(collector.named("settle")),
            effects: collector.named("effect notify"),
        }
    }

    /// Found again by whoever knows the name; the ping's is another.
    fn is_one_trace(&self, name: &str, all: &[Span]) {
        let root = format!("{:?}", Trace::of_operation(name).root());
        assert_eq!(place(&self.operation), root);
        let ours = &self.operation.trace_id;
        for span in all {
            let is_ping = span.span_id == self.ping.span_id;
            assert_eq!(&span.trace_id == ours, !is_ping, "{span:?}");
            let ends_later = span.end_time_unix_nano >= span.start_time_unix_nano;
            assert!(ends_later, "{span:?}");
        }
        let ids: BTreeSet<_> = all.iter().map(|span| &span.span_id).collect();
        assert_eq!(ids.len(), all.len(), "each span once");
    }

    fn stands_under_what_led_to_it(&self) {
        let root = &self.operation.span_id;
        assert!(self.operation.parent_span_id.is_empty());
        assert!(self.ping.parent_span_id.is_empty());
        assert_eq!(&self.delivery.parent_span_id, root);
        assert_eq!(&self.settle.parent_span_id, root);
        assert!(self.fetches.len() >= 2, "{:?}", self.fetches);
        for fetch in &self.fetches {
            assert_eq!(fetch.parent_span_id, self.delivery.span_id, "{fetch:?}");
        }
        assert_eq!(self.effects.len(), 2, "{:?}", self.effects);
        for effect in &self.effects {
            assert_eq!(effect.parent_span_id, self.settle.span_id);
        }
        // What the sender says is linked, and no parent.
        let link = self.delivery.links.first().unwrap();
        let linked = format!("00-{}-{}-01", hex(&link.trace_id), hex(&link.span_id));
        assert_eq!(linked, SENDER);
    }

    fn says_why_in_a_word(&self) {
        let (first, last) = (self.fetches.first().unwrap(), self.fetches.last().unwrap());
        assert_eq!(error(first).unwrap(), "unavailable");
        assert_eq!(first.status.clone().unwrap().code, 2);
        assert_eq!((error(last), last.status.clone()), (None, None));
        let attempts: Vec<_> = self.effects.iter().map(error).collect();
        assert_eq!(attempts, [Some("retry".to_owned()), None]);
        assert_eq!(error(&self.operation), None);
        let said = |span: &Span, key: &str| text(span, key).unwrap();
        assert_eq!(said(&self.settle, "hookledger.settled_by"), "webhook");
        assert_eq!(said(&self.ping, "hookledger.verdict"), "ignored");
        assert_eq!(
            said(self.effects.last().unwrap(), "hookledger.attempt"),
            "2"
        );
    }
}

/// The collector's own credential came in its header; nothing secret is in any byte beside it.
fn told_nothing_secret(collector: &Collector) {
    let secrets = [
        PATH_TOKEN,
        SHARED,
        ADMIN_TOKEN,
        API_KEY,
        SIGNING,
        SINK_SECRET,
    ];
    for message in collector.messages() {
        let resource = message.resource_spans.first().unwrap().resource.clone();
        let named = format!("{resource:?}");
        assert!(named.contains("ledger-under-test"), "{named}");
    }
    for (headers, body) in collector.requests() {
        assert_eq!(headers.get("authorization").unwrap(), AUTHORIZATION);
        let protobuf = headers.get("content-type").unwrap();
        assert_eq!(protobuf, "application/x-protobuf");
        let bytes = String::from_utf8_lossy(&body);
        for never in secrets.into_iter().chain([AUTHORIZATION, IN_THE_BODY]) {
            assert!(!bytes.contains(never), "{never}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_down_keeps_nothing_waiting_and_is_told_of_once() {
    let collector = Collector::start().await;
    collector.refuses(Some(503));
    let mut stand = stand(&collector, &[]).await;
    let name = stand.gemini.start(silent(false)).unwrap();
    assert_eq!(stand.deliver("told", succeeded(&name)).await.0, 200);
    stand.settled(&name).await;
    eventually("it was asked twice", SOON, async || {
        (collector.refused() >= 2).then_some(())
    })
    .await;
    assert_eq!(stand.deliver("more", succeeded(&name)).await.0, 200);
    collector.refuses(None);
    eventually("what waited is exported", SOON, async || {
        (collector.named("delivery").len() == 2).then_some(())
    })
    .await;
    // Refused for good, it is not asked again for the same spans.
    collector.refuses(Some(401));
    assert_eq!(stand.deliver("again", succeeded(&name)).await.0, 200);
    let page = format!("http://{}/metrics", stand.admin);
    eventually("the refused one is counted", SOON, async || {
        let page = stand.http.get(&page).send().await.unwrap();
        let page = page.text().await.unwrap();
        let line = "hookledger_trace_spans_total{outcome=\"refused\"} 1\n";
        page.contains(line).then_some(())
    })
    .await;
    let mut service = stand.take();
    service.terminate();
    assert!(service.ended(SOON).await.success());
    let logged = service.logged();
    let said = |words: &str| logged.matches(words).count();
    // Two outages, one recovery.
    assert_eq!(said("traces cannot be exported"), 2, "{logged}");
    assert_eq!(said("traces are exported again"), 1, "{logged}");
    assert_eq!(said("the collector asks for patience"), 1, "{logged}");
    assert_eq!(said("the collector refuses the credentials"), 1, "{logged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_endpoint_nothing_is_exported_whatever_the_environment_says() {
    let collector = Collector::start().await;
    let mut stand = Stand::up().await;
    let mut first = stand.take();
    first.terminate();
    assert!(first.ended(SOON).await.success());
    let base = collector.url.trim_end_matches("/v1/traces");
    let of_others = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", base),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collector.url),
    ];
    stand.start_with(&of_others).await;
    let name = stand.gemini.start(silent(false)).unwrap();
    assert_eq!(stand.deliver("told", succeeded(&name)).await.0, 200);
    stand.settled(&name).await;
    let mut service = stand.take();
    service.terminate();
    assert!(service.ended(SOON).await.success());
    assert_eq!(collector.requests().len() + collector.refused(), 0);
    assert_eq!(stand.sink.traceparents(), [None]);
}

#[test]
fn everything_wrong_about_traces_is_told_at_once() {
    let text = "[traces]\nendpoint = 'http://collector:4318'\nservice_name = ''\nsample_percent = 0\n\
                [traces.headers]\ncontent-type = 'text/plain'\nhost = 'x'\n";
    let problems = hookledger::config::load(&Inputs::new().with_text(text), Purpose::Client);
    let problems = problems.unwrap_err().to_string();
    for (key, fix) in [
        ("traces.endpoint", "/v1/traces"),
        ("traces.service_name", "hookledger"),
        ("traces.sample_percent", "from 1 to 100"),
        ("traces.headers.content-type", "leave it out"),
        ("traces.headers.host", "header name"),
    ] {
        let line = problems.lines().find(|line| line.contains(key));
        let line = line.unwrap_or_else(|| panic!("{key} is not in {problems}"));
        assert!(line.contains(fix), "{line}");
    }
}
