//! Results that stand in the body itself, taken out for a file of lines.
//!
//! Each value keeps its digits and the order of its keys: it is cut out of the body, not parsed and
//! written anew. The provider indents its answers, so white space between tokens is dropped, which
//! makes every value one line (a JSON string cannot hold a raw line break).

use serde_json::value::RawValue;

use super::node::{Node, Object};
use super::{batch, undecodable};
use crate::domain::fault::Fault;
use crate::domain::operation::Kind;

/// The results inside a fetched body, each on one line: a batch's inline responses, an
/// interaction's steps, any other operation's `response` as the only one.
///
/// # Errors
/// [`Fault::Undecodable`] when the body is no JSON object or holds no results.
pub fn inline_results(kind: Kind, bytes: &[u8]) -> Result<Vec<Box<RawValue>>, Fault> {
    let body = Object::read(bytes).ok_or_else(|| undecodable("not a JSON object"))?;
    let found = match kind {
        Kind::Batch => batch::places(&body).find_map(|place| batch::responses_in(&place)),
        Kind::Interaction => steps(&body).filter(|steps| !steps.is_empty()),
        Kind::Video | Kind::Operation => body.get("response").map(|node| vec![node]),
    };
    found
        .ok_or_else(|| undecodable("no results in the body"))?
        .into_iter()
        .map(|node| {
            RawValue::from_string(one_line(node.raw())).map_err(|_| undecodable("a broken result"))
        })
        .collect()
}

/// An interaction's steps, under their present or their former name.
pub(super) fn steps<'a>(body: &Object<'a>) -> Option<Vec<Node<'a>>> {
    body.items("steps").or_else(|| body.items("outputs"))
}

/// Valid JSON without the white space between its tokens.
fn one_line(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    json.chars()
        .filter(|&c| {
            if in_string {
                in_string = escaped || c != '"';
                escaped = !escaped && c == '\\';
                return true;
            }
            in_string = c == '"';
            !c.is_ascii_whitespace()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_becomes_one_line_and_keeps_its_digits_and_order() {
        let body = br#"{"response": {"inlinedResponses": {"inlinedResponses": [
            {"z": 1.50, "a": 123456789012345678901234567890,
             "s": "two  spaces, \"quote\" \\", "t": "\n"},
            {"error": {"code": 3}, "metadata": {"key": "k2"}}
        ]}}}"#;
        let lines = inline_results(Kind::Batch, body).unwrap();
        let lines: Vec<&str> = lines.iter().map(|line| line.get()).collect();
        assert_eq!(
            lines,
            [
                r#"{"z":1.50,"a":123456789012345678901234567890,"s":"two  spaces, \"quote\" \\","t":"\n"}"#,
                r#"{"error":{"code":3},"metadata":{"key":"k2"}}"#,
            ]
        );
    }

    #[test]
    fn every_place_of_results_is_found() {
        for (kind, body, count) in [
            (
                Kind::Batch,
                r#"{"response":{"inlinedResponses":[{},{}]}}"#,
                2,
            ),
            (
                Kind::Batch,
                r#"{"metadata":{"output":{"inlinedResponses":{"inlinedResponses":[1]}}}}"#,
                1,
            ),
            (
                Kind::Batch,
                r#"{"response":{},"metadata":{"output":{"inlinedResponses":[1,2,3]}}}"#,
                3,
            ),
            (
                Kind::Batch,
                r#"{"response":{"inlinedEmbedContentResponses":{"inlinedResponses":[1]}}}"#,
                1,
            ),
            (
                Kind::Interaction,
                r#"{"status":"completed","steps":[{},{}]}"#,
                2,
            ),
            (
                Kind::Interaction,
                r#"{"status":"completed","outputs":[{}]}"#,
                1,
            ),
            (Kind::Operation, r#"{"done":true,"response":{"x":1}}"#, 1),
        ] {
            let found = inline_results(kind, body.as_bytes()).map(|found| found.len());
            assert_eq!(found, Ok(count), "{body}");
        }
        for (kind, body) in [
            (Kind::Batch, "{}"),
            (
                Kind::Batch,
                r#"{"response":{"inlinedResponses":{"inlinedResponses":[]}}}"#,
            ),
            (Kind::Batch, r#"{"response":{"responsesFile":"files/a"}}"#),
            (Kind::Interaction, r#"{"steps":[]}"#),
            (Kind::Operation, r#"{"response":null}"#),
            (Kind::Operation, "[]"),
            (Kind::Operation, "<html>"),
        ] {
            let fault = inline_results(kind, body.as_bytes()).unwrap_err();
            assert_eq!(fault.label(), "undecodable", "{body}");
        }
    }
}
