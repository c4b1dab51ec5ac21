//! How the provider's record is shown: no token, and a secret only on request.

use std::fmt::Write as _;

use serde_json::{Value, json};
use url::Url;

use super::super::output::{cell, printable};
use crate::gemini::webhooks::Webhook;
use crate::reconcile::wanted::{Difference, Wanted};

/// The fields of a record that `sync` changes.
pub(super) fn changes(wanted: &Wanted, found: Option<&Webhook>) -> Vec<Value> {
    let Some(found) = found else {
        return vec![
            json!({"field": "uri", "from": null, "to": shown_uri(&wanted.uri)}),
            json!({"field": "events", "from": null, "to": wanted.events}),
        ];
    };
    let mut changes: Vec<Value> = wanted
        .differences(found)
        .into_iter()
        .map(|difference| match difference {
            Difference::Uri => json!({
                "field": "uri",
                "from": found.uri.as_deref().map(shown_uri),
                "to": shown_uri(&wanted.uri),
            }),
            Difference::Events { missing, extra } => json!({
                "field": "events",
                "from": found.subscribed_events, "to": wanted.events,
                "add": missing, "remove": extra,
            }),
        })
        .collect();
    if !found.delivers() {
        changes.push(json!({"field": "state", "from": found.state, "to": "enabled"}));
    }
    changes
}

/// What `sync` changes, as a difference.
pub(super) fn diff_text(answer: &Value) -> String {
    let id = answer.get("id").and_then(Value::as_str);
    let mut text = match id {
        None => "a new webhook:\n".to_owned(),
        Some(id) => format!("webhook {}:\n", printable(id)),
    };
    let changes = answer.get("changes").and_then(Value::as_array);
    let changes = changes.map(Vec::as_slice).unwrap_or_default();
    if changes.is_empty() {
        return format!("webhook {} is as configured\n", cell(answer.get("id")));
    }
    let words = |value: Option<&Value>| -> Vec<String> {
        match value {
            Some(Value::Array(items)) => items.iter().map(|v| cell(Some(v))).collect(),
            Some(Value::Null) | None => Vec::new(),
            other => vec![cell(other)],
        }
    };
    for change in changes {
        let field = cell(change.get("field"));
        let (removed, added) = match (change.get("remove"), change.get("add")) {
            (None, None) => (words(change.get("from")), words(change.get("to"))),
            (remove, add) => (words(remove), words(add)),
        };
        for word in removed {
            _ = writeln!(text, "- {field}: {word}");
        }
        for word in added {
            _ = writeln!(text, "+ {field}: {word}");
        }
    }
    text
}

/// What a rotation did.
pub(super) fn rotated_text(rotated: &Value) -> String {
    let (id, path) = (rotated.get("webhook_id"), rotated.get("secret_stored_in"));
    format!(
        "webhook {} signs with a new secret, which is in {}; the one before is accepted for 24 \
         hours more\n",
        cell(id),
        cell(path)
    )
}

/// What was made, with its secret if it is to be shown.
pub(super) fn made_text(made: &Value) -> String {
    let id = cell(made.get("id"));
    let mut text = format!("webhook {id} is made\n");
    if let Some(secret) = made.get("secret") {
        _ = writeln!(
            text,
            "its signing secret, shown once: {}",
            cell(Some(secret))
        );
    }
    if let Some(path) = made.get("secret_stored_in") {
        _ = writeln!(text, "its signing secret is in {}", cell(Some(path)));
    }
    text
}

/// A record, without what nobody may see.
pub(super) fn document(webhook: &Webhook) -> Value {
    let secrets: Vec<Value> = webhook
        .signing_secrets
        .iter()
        .map(|s| json!({"truncated_secret": s.truncated_secret, "expire_time": s.expire_time}))
        .collect();
    json!({
        "id": webhook.id.as_str(),
        "name": webhook.name,
        "state": webhook.state,
        "uri": webhook.uri.as_deref().map(shown_uri),
        "events": webhook.subscribed_events,
        "create_time": webhook.create_time,
        "update_time": webhook.update_time,
        "signing_secrets": secrets,
    })
}

/// An address without its last segment, query and user, any of which may be a token.
fn shown_uri(uri: &str) -> String {
    let Ok(mut url) = Url::parse(uri) else {
        return "(not an address)".to_owned();
    };
    url.set_query(None);
    url.set_fragment(None);
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return "(not a web address)".to_owned();
    }
    let text = url.to_string();
    match text.rsplit_once('/') {
        Some((before, last)) if !last.is_empty() => format!("{before}/…"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_may_be_a_token() {
        for (uri, shown) in [
            (
                "https://a.example/hooks/gemini/token",
                "https://a.example/hooks/gemini/…",
            ),
            ("https://u:p@a.example/x?token=1#f", "https://a.example/…"),
            ("https://a.example/", "https://a.example/"),
            ("token", "(not an address)"),
        ] {
            assert_eq!(shown_uri(uri), shown);
        }
    }
}
