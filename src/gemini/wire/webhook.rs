//! `webhooks/{id}`: all snake case, everything but the id may be missing, unknown words are kept.

use super::node::Object;
use super::undecodable;
use crate::base::secret::Secret;
use crate::domain::fault::Fault;
use crate::gemini::text::clean;
use crate::gemini::webhooks::{ShortSecret, Webhook};

/// Longest name or word kept, in characters.
const MAX_WORD_CHARS: usize = 256;
/// Longest URI kept, in characters.
const MAX_URI_CHARS: usize = 4096;

/// One webhook.
pub(in crate::gemini) fn webhook(bytes: &[u8]) -> Result<Webhook, Fault> {
    Object::read(bytes)
        .and_then(|body| read(&body))
        .ok_or_else(|| undecodable("the body is no webhook"))
}

/// One page of a list, and the token of the next. Entries without an id are passed over.
pub(in crate::gemini) fn page(bytes: &[u8]) -> Result<(Vec<Webhook>, Option<String>), Fault> {
    let body = Object::read(bytes).ok_or_else(|| undecodable("the list is no JSON object"))?;
    let items = body.items("webhooks").unwrap_or_default();
    let found = items.iter().filter_map(|item| read(&item.object()?));
    let next = body.text("next_page_token").filter(|t| !t.is_empty());
    Ok((found.collect(), next))
}

/// The secret a rotation brought.
pub(in crate::gemini) fn secret(bytes: &[u8]) -> Result<Secret, Fault> {
    Object::read(bytes)
        .and_then(|body| body.text("secret"))
        .filter(|text| !text.is_empty())
        .map(Secret::new)
        .ok_or_else(|| undecodable("the answer holds no secret"))
}

fn read(body: &Object<'_>) -> Option<Webhook> {
    // Older answers name the resource where newer ones have a name for people.
    let name = body.text("name");
    let id = body.text("id").or_else(|| name.clone())?.parse().ok()?;
    let word = |key: &str| body.text(key).map(|text| clean(&text, MAX_WORD_CHARS));
    let events = body.items("subscribed_events").unwrap_or_default();
    let secrets = body.items("signing_secrets").unwrap_or_default();
    Some(Webhook {
        id,
        name: name.map(|text| clean(&text, MAX_WORD_CHARS)),
        uri: body
            .text("uri")
            .filter(|uri| uri.chars().count() <= MAX_URI_CHARS),
        subscribed_events: events
            .iter()
            .filter_map(|event| Some(clean(&event.text()?, MAX_WORD_CHARS)))
            .collect(),
        state: word("state"),
        create_time: word("create_time"),
        update_time: word("update_time"),
        new_signing_secret: body
            .text("new_signing_secret")
            .filter(|text| !text.is_empty())
            .map(Secret::new),
        signing_secrets: secrets
            .iter()
            .filter_map(|secret| {
                let secret = secret.object()?;
                Some(ShortSecret {
                    truncated_secret: clean(&secret.text("truncated_secret")?, MAX_WORD_CHARS),
                    expire_time: secret
                        .text("expire_time")
                        .map(|text| clean(&text, MAX_WORD_CHARS)),
                })
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_id_may_be_missing_and_unknown_words_are_kept() {
        let bare = webhook(br#"{"id":"k0h9q38f6ejj1g9j7cgcdsauadmbewegl79f"}"#).unwrap();
        assert!(bare.delivers() && bare.uri.is_none() && bare.subscribed_events.is_empty());
        let odd = br#"{"id":"x","state":"paused","subscribed_events":["a.b",7,"batch.failed"],
            "create_time":null,"later":{"a":1},"signing_secrets":[{"truncated_secret":"whsec_...="},{}]}"#;
        let odd = webhook(odd).unwrap();
        assert_eq!(odd.state.as_deref(), Some("paused"));
        assert_eq!(odd.subscribed_events, ["a.b", "batch.failed"]);
        assert_eq!(odd.signing_secrets.len(), 1);
        for (state, delivers) in [
            ("enabled", true),
            ("disabled", false),
            ("DISABLED_DUE_TO_FAILED_DELIVERIES", false),
        ] {
            let body = format!(r#"{{"id":"x","state":"{state}"}}"#);
            assert_eq!(webhook(body.as_bytes()).unwrap().delivers(), delivers);
        }
        assert_eq!(
            webhook(br#"{"name":"webhooks/abc"}"#).unwrap().id.as_str(),
            "abc"
        );
    }

    #[test]
    fn what_is_no_webhook_is_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"id":"a/b"}"#,
            r#"{"id":"../x"}"#,
            "<html>",
        ] {
            assert!(webhook(body.as_bytes()).is_err(), "{body}");
        }
        for body in ["{}", r#"{"secret":""}"#, r#"{"secret":7}"#] {
            assert!(secret(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let made = webhook(br#"{"id":"x","new_signing_secret":"whsec_canary"}"#).unwrap();
        assert!(!format!("{made:?}").contains("canary"));
        assert_eq!(made.new_signing_secret.unwrap().expose(), "whsec_canary");
        assert_eq!(
            secret(br#"{"secret":"whsec_x"}"#).unwrap().expose(),
            "whsec_x"
        );
    }
}
