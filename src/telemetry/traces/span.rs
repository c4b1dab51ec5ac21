//! A finished span, and how OTLP writes it.
//!
//! Names and words of attributes are written in the code; values are names of the ledger, words of a
//! fixed list, and numbers. Texts are cut to a bound, whoever wrote them.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, InstrumentationScope, KeyValue, any_value::Value as Wire,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{self as wire, ResourceSpans, ScopeSpans};

use super::place::Place;
use crate::base::clock::Timestamp;

/// Longest text of an attribute, bytes.
const MAX_TEXT: usize = 256;
/// The flag of the trace context by which a span says that it was sampled.
const SAMPLED: u32 = 1;

/// What a span does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Takes a request.
    Server,
    /// Makes one.
    Client,
    /// Neither.
    Internal,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A name or a word.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        let end = text.floor_char_boundary(MAX_TEXT);
        Self::Text(text.get(..end).unwrap_or_default().to_owned())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(i64::from(number))
    }
}

/// One finished span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where it stands.
    pub at: Place,
    /// Whose child it is.
    pub parent: Option<Place>,
    /// What it is called: a few words that are the same for all of its sort.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// When it began.
    pub began: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// What is known about it.
    pub attributes: Vec<(&'static str, Value)>,
    /// A span of somebody else's that led to it, as he says.
    pub link: Option<Place>,
    /// It failed, in one word of a fixed list.
    pub error: Option<&'static str>,
}

impl Span {
    fn wire(self) -> wire::Span {
        let began = u64::try_from(self.began.as_millis()).unwrap_or(0) * 1_000_000;
        let took = u64::try_from(self.took.as_nanos()).unwrap_or(u64::MAX);
        let error = self.error.map(|word| ("error.type", Value::from(word)));
        let link = self.link.map(|to| Link {
            trace_id: to.trace.to_vec(),
            span_id: to.span.to_vec(),
            ..Link::default()
        });
        let status = self.error.map(|word| wire::Status {
            message: word.to_owned(),
            code: StatusCode::Error.into(),
        });
        wire::Span {
            trace_id: self.at.trace.to_vec(),
            span_id: self.at.span.to_vec(),
            parent_span_id: self.parent.map(|p| p.span.to_vec()).unwrap_or_default(),
            flags: SAMPLED,
            name: self.name,
            kind: match self.kind {
                Kind::Server => SpanKind::Server,
                Kind::Client => SpanKind::Client,
                Kind::Internal => SpanKind::Internal,
            }
            .into(),
            start_time_unix_nano: began,
            end_time_unix_nano: began.saturating_add(took),
            attributes: self
                .attributes
                .into_iter()
                .chain(error)
                .map(attribute)
                .collect(),
            links: link.into_iter().collect(),
            status,
            ..wire::Span::default()
        }
    }
}

fn attribute((key, value): (&'static str, Value)) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(match value {
                Value::Text(text) => Wire::StringValue(text),
                Value::Number(number) => Wire::IntValue(number),
            }),
        }),
        ..KeyValue::default()
    }
}

/// One message with all of them.
pub(super) fn request(service_name: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: [
            ("service.name", Value::from(service_name)),
            ("service.version", Value::from(version)),
        ]
        .map(attribute)
        .to_vec(),
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: version.to_owned(),
        ..InstrumentationScope::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope),
                spans: spans.into_iter().map(Span::wire).collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_a_character_ends() {
        let text = "é".repeat(MAX_TEXT);
        let Value::Text(cut) = Value::from(format!("a{text}").as_str()) else {
            panic!("no text");
        };
        assert_eq!(cut.len(), MAX_TEXT - 1);
    }
}
