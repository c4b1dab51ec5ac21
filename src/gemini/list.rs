//! The provider's list of batches. There is none of videos or interactions.
//!
//! A list page shows what exists. It is never believed about states, and what is absent from it may
//! exist all the same.

use serde_json::Value;

use super::client::HttpGemini;
use crate::domain::fault::Fault;
use crate::domain::operation::OperationName;

/// Batches asked for in one page.
const PAGE: u32 = 100;

/// One page of the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchPage {
    /// The names on it.
    pub names: Vec<OperationName>,
    /// Entries without a name that could be one.
    pub unreadable: u64,
    /// The token of the next page, if there is one.
    pub next: Option<String>,
}

impl HttpGemini {
    /// One page of the batches of the key's project, newest first.
    pub async fn batches(&self, token: Option<&str>) -> Result<BatchPage, Fault> {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("pageSize", &PAGE.to_string());
        if let Some(token) = token {
            query.append_pair("pageToken", token);
        }
        let bytes = self.call(&format!("batches?{}", query.finish())).await?;
        read(&bytes)
    }
}

fn read(bytes: &[u8]) -> Result<BatchPage, Fault> {
    let undecodable = |what: &str| Fault::Undecodable {
        what: what.to_owned(),
    };
    let body: serde_json::Map<String, Value> = serde_json::from_slice(bytes)
        .map_err(|_| undecodable("the list of batches is not a JSON object"))?;
    let entries = match body.get("operations") {
        // A page without entries leaves the field out.
        None | Some(Value::Null) => &[],
        Some(Value::Array(entries)) => entries.as_slice(),
        Some(_) => return Err(undecodable("the list of batches holds no list")),
    };
    let mut page = BatchPage::default();
    for entry in entries {
        let name = entry.get("name").and_then(Value::as_str);
        match name.and_then(|name| name.parse().ok()) {
            Some(name) => page.names.push(name),
            None => page.unreadable += 1,
        }
    }
    let next = body.get("nextPageToken").and_then(Value::as_str);
    page.next = next
        .filter(|token| !token.is_empty())
        .map(ToOwned::to_owned);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_and_what_is_no_list_is_not() {
        let page = read(
            br#"{"operations": [{"name": "batches/a1"}, {"name": "../x"}, {}], "nextPageToken": "t"}"#,
        )
        .unwrap();
        assert_eq!(page.names, ["batches/a1".parse().unwrap()]);
        assert_eq!((page.unreadable, page.next.as_deref()), (2, Some("t")));
        assert_eq!(read(b"{}").unwrap(), BatchPage::default());
        assert_eq!(read(br#"{"nextPageToken": ""}"#).unwrap().next, None);
        for other in [&b"[]"[..], b"<html>", br#"{"operations": {}}"#] {
            assert!(matches!(read(other), Err(Fault::Undecodable { .. })));
        }
    }
}
