//! A batch's responses, out of its own body.
//!
//! The provider nests them twice (`inlinedResponses.inlinedResponses`), in `response` or in
//! `metadata.output`; a flat list is read as well. Each response becomes one line with every token as
//! it came: only white space between tokens goes, because the provider breaks lines inside.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    response: Option<Holder<'a>>,
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    output: Option<Holder<'a>>,
}

#[derive(Deserialize)]
struct Holder<'a> {
    #[serde(borrow, rename = "inlinedResponses")]
    inlined: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Nested<'a> {
    #[serde(borrow, rename = "inlinedResponses", default)]
    inlined: Vec<&'a RawValue>,
}

/// One line of JSON per inline response, in the body's order. `None` when the body shows none.
pub(super) fn lines(body: &[u8]) -> Option<Vec<String>> {
    let body: Body<'_> = serde_json::from_slice(body).ok()?;
    let in_response = body.response.and_then(|holder| holder.inlined);
    let in_metadata = || body.metadata?.output?.inlined;
    let raw = in_response.or_else(in_metadata)?.get();
    let all = match serde_json::from_str::<Vec<&RawValue>>(raw) {
        Ok(flat) => flat,
        Err(_) => serde_json::from_str::<Nested<'_>>(raw).ok()?.inlined,
    };
    Some(all.into_iter().map(|one| compact(one.get())).collect())
}

/// Valid JSON without the white space between its tokens.
fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if !in_string && c.is_ascii_whitespace() {
            continue;
        }
        out.push(c);
        if escaped {
            escaped = false;
        } else if in_string && c == '\\' {
            escaped = true;
        } else if c == '"' {
            in_string = !in_string;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str =
        r#"{"response":{"n":1.50e-7,"text":"a \"b\\\" c\n"},"metadata":{"key":"k 1"}}"#;
    const SECOND: &str = r#"{"error":{"code":3}}"#;

    #[test]
    fn every_place_and_depth_is_read_token_for_token() {
        let pretty = FIRST
            .replace(",\"metadata\"", ",\n  \"metadata\"")
            .replace("{\"n\":", "{\r\n\t\"n\" : ");
        let list = format!("[ {pretty} , {SECOND} ]");
        for body in [
            format!(r#"{{"response":{{"inlinedResponses":{{"inlinedResponses":{list}}}}}}}"#),
            format!(r#"{{"response":{{"inlinedResponses":{list}}}}}"#),
            format!(
                r#"{{"done":true,"metadata":{{"output":{{"inlinedResponses":{{"inlinedResponses":{list}}}}}}}}}"#
            ),
            format!(
                r#"{{"response":{{"@type":"x"}},"metadata":{{"output":{{"inlinedResponses":{list}}}}}}}"#
            ),
        ] {
            assert_eq!(lines(body.as_bytes()).unwrap(), [FIRST, SECOND], "{body}");
        }
    }

    #[test]
    fn a_body_without_them_is_told_apart_from_an_empty_list() {
        assert_eq!(
            lines(br#"{"response":{"inlinedResponses":{}}}"#),
            Some(Vec::new())
        );
        for body in [
            &b"{}"[..],
            br#"{"response":{"responsesFile":"files/x"}}"#,
            b"not json",
            br#"{"response":{"inlinedResponses":7}}"#,
        ] {
            assert_eq!(lines(body), None);
        }
    }
}
