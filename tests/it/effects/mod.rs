//! Effects against real sockets, real processes and a real directory.

mod command;
mod http;
mod results;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hookledger::base::clock::{Clock, SystemClock, Timestamp};
use hookledger::config::settings::{self, Action};
use hookledger::domain::effect::{AmbiguousPolicy, Delivery, EffectRule};
use hookledger::domain::fault::Fault;
use hookledger::domain::operation::OperationName;
use hookledger::effects::{Effect, Message, Registry};
use hookledger::gemini::{Download, FetchedBody, FileName, GeminiApi};

pub(crate) const KEY: &str = "vkywrtadclgo7zmshkvppovuofd3nxjssfseyr6h3y4wcyqq5zua";
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// An API that nothing may ask.
#[derive(Debug)]
struct NoGemini;

#[async_trait]
impl GeminiApi for NoGemini {
    async fn operation(&self, _: &OperationName) -> Result<FetchedBody, Fault> {
        Err(Fault::NotFound)
    }

    async fn probe(&self) -> Result<(), Fault> {
        Err(Fault::NotFound)
    }

    async fn download(&self, _: &FileName) -> Result<Download, Fault> {
        Err(Fault::NotFound)
    }
}

pub(crate) fn configured(name: &str, action: Action, timeout: Duration) -> settings::Effect {
    settings::Effect {
        rule: EffectRule {
            name: name.to_owned(),
            job_kind: "*".to_owned(),
            on: Vec::new(),
            ambiguous: AmbiguousPolicy::Retry,
        },
        action,
        timeout,
    }
}

/// The one effect of a registry built from this action.
pub(crate) fn effect(action: Action, timeout: Duration) -> Arc<dyn Effect> {
    let gemini: Arc<dyn GeminiApi> = Arc::new(NoGemini);
    effect_with(action, timeout, &gemini)
}

pub(crate) fn effect_with(
    action: Action,
    timeout: Duration,
    gemini: &Arc<dyn GeminiApi>,
) -> Arc<dyn Effect> {
    let registry = Registry::build(&[configured("notify", action, timeout)], gemini).unwrap();
    let built = registry.get("notify").unwrap();
    assert_eq!(built.timeout(), timeout);
    built
}

pub(crate) fn message(payload: impl Into<Bytes>) -> Message {
    Message {
        key: KEY.to_owned(),
        effect: "notify".to_owned(),
        operation: Some("batches/a".parse().unwrap()),
        payload: payload.into(),
        attempt: 1,
        now: now(),
        traceparent: None,
    }
}

pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}

/// The word of a delivery and its reason.
pub(crate) fn told(delivery: Delivery) -> (&'static str, String) {
    match delivery {
        Delivery::Done => ("done", String::new()),
        Delivery::Retry { why, .. } => ("retry", why),
        Delivery::Ambiguous { why } => ("ambiguous", why),
        Delivery::Refused { why } => ("refused", why),
    }
}

#[test]
fn a_registry_finds_by_name_keeps_the_order_and_refuses_a_second_of_a_name() {
    let command = |word: &str| Action::Command {
        argv: vec![word.to_owned()],
    };
    let gemini: Arc<dyn GeminiApi> = Arc::new(NoGemini);
    let all = [
        configured("b", command("/bin/true"), LIMIT),
        configured("a", command("/bin/true"), LIMIT),
    ];
    let registry = Registry::build(&all, &gemini).unwrap();
    let order: Vec<&str> = registry.rules().iter().map(|r| r.name.as_str()).collect();
    assert_eq!(order, ["b", "a"]);
    assert_eq!(registry.get("a").unwrap().kind(), "command");
    assert!(registry.get("c").is_none());

    let twice = [all[0].clone(), all[0].clone()];
    let error = Registry::build(&twice, &gemini).unwrap_err().to_string();
    assert!(error.starts_with("effects: b: "), "{error}");
    let empty = [configured("c", command(""), LIMIT)];
    let error = Registry::build(&empty, &gemini).unwrap_err().to_string();
    assert_eq!(error, "effects: c: argv must name a program");
}
