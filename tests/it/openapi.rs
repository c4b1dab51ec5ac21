//! The OpenAPI document says what the service does.
//!
//! Its paths are held against the routes in the source, and every answer that any test of the API
//! sees against its schema ([`check`] is called by the tests' own client). Schemas are read strictly:
//! a keyword that this reader does not know fails, so nothing in the document goes unread.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use proc_macro2::{TokenStream, TokenTree};
use serde_json::{Map, Value, json};

/// The parts of the document, laid into one another as the service does.
pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/admin/openapi");
    let mut whole = Value::Null;
    for part in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(part.unwrap().path()).unwrap();
        merge(&mut whole, serde_json::from_str(&text).unwrap());
    }
    whole
});

fn merge(into: &mut Value, part: Value) {
    match (into, part) {
        (Value::Object(into), Value::Object(part)) => {
            for (name, value) in part {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, part) => *into = part,
    }
}

/// Follows a `$ref`.
fn followed(value: &Value) -> &Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(to) => DOCUMENT
            .pointer(to.strip_prefix('#').unwrap())
            .unwrap_or_else(|| panic!("{to} is not there")),
        None => value,
    }
}

/// What is wrong with an answer to `method path`, by the document.
pub(crate) fn check(
    method: &str,
    path: &str,
    status: u16,
    content_type: &str,
    body: &[u8],
) -> Result<(), String> {
    let path = path.split('?').next().unwrap();
    let Some(operation) = operation(method, path) else {
        // What is not in the document is refused, in the form that it tells of.
        let told = [401, 403, 404, 405].contains(&status);
        return if told && content_type == "application/problem+json" {
            Ok(())
        } else {
            Err(format!(
                "{method} {path} is not in the document, and was answered {status}"
            ))
        };
    };
    let answer = operation.pointer(&format!("/responses/{status}"));
    let answer = answer.ok_or_else(|| format!("{method} {path}: no answer {status} is told of"))?;
    let content = followed(answer)["content"].as_object().unwrap();
    let essence = content_type.split(';').next().unwrap();
    let schema = content
        .get(essence)
        .ok_or_else(|| format!("{method} {path} {status}: {content_type} is not told of"))?;
    if essence == "text/plain" {
        return Ok(());
    }
    let body: Value = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    valid(
        &schema["schema"],
        &body,
        &format!("{method} {path} {status}"),
    )
}

/// The operation of a path: a literal one before one with variables.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let method = method.to_lowercase();
    let fits = |template: &str| {
        let (before, after) = template.split_once('{')?;
        let after = after.split_once('}')?.1;
        let middle = path.strip_prefix(before)?.strip_suffix(after)?;
        let many = template.contains("{name}");
        (!middle.is_empty() && (many || !middle.contains('/'))).then_some(after.len())
    };
    let best = paths.get(path).or_else(|| {
        let all = paths.iter().filter(|(_, path)| path.get(&method).is_some());
        let all = all.filter_map(|(template, path)| Some((fits(template)?, path)));
        all.max_by_key(|(after, _)| *after).map(|(_, path)| path)
    });
    best?.get(&method)
}

fn valid(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let schema = followed(schema);
    let Some(rules) = schema.as_object() else {
        return Err(format!("{at}: {schema} is no schema"));
    };
    for (keyword, rule) in rules {
        let fits = match keyword.as_str() {
            "type" => {
                let words = rule
                    .as_array()
                    .map_or_else(|| vec![rule], |all| all.iter().collect());
                words.iter().any(|word| is(value, word.as_str().unwrap()))
            }
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "anyOf" => rule
                .as_array()
                .unwrap()
                .iter()
                .any(|one| valid(one, value, at).is_ok()),
            "minimum" => value.as_f64().is_none_or(|n| n >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|n| n <= rule.as_f64().unwrap()),
            "minLength" => length(value).is_none_or(|n| n >= rule.as_u64().unwrap()),
            "maxLength" => length(value).is_none_or(|n| n <= rule.as_u64().unwrap()),
            "minItems" => count(value).is_none_or(|n| n >= rule.as_u64().unwrap()),
            "maxItems" => count(value).is_none_or(|n| n <= rule.as_u64().unwrap()),
            "format" => value
                .as_str()
                .is_none_or(|text| has_form(text, rule.as_str().unwrap())),
            "required" => rule.as_array().unwrap().iter().all(|name| {
                value
                    .as_object()
                    .is_none_or(|o| o.contains_key(name.as_str().unwrap()))
            }),
            "additionalProperties" => {
                assert_eq!(rule, &json!(false), "{at}");
                let known = rules["properties"].as_object().unwrap();
                value
                    .as_object()
                    .is_none_or(|o| o.keys().all(|name| known.contains_key(name)))
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        valid(rule, field, &format!("{at} .{name}"))?;
                    }
                }
                true
            }
            "items" => {
                for (n, item) in value.as_array().into_iter().flatten().enumerate() {
                    valid(rule, item, &format!("{at} [{n}]"))?;
                }
                true
            }
            // Of requests, which the service judges itself; and words for people.
            "pattern" | "description" | "default" => true,
            other => return Err(format!("{at}: the keyword {other} is not known here")),
        };
        if !fits {
            return Err(format!("{at}: {value} does not fit {keyword}: {rule}"));
        }
    }
    Ok(())
}

fn is(value: &Value, word: &str) -> bool {
    match word {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        other => panic!("{other} is no type"),
    }
}

fn length(value: &Value) -> Option<u64> {
    value.as_str().map(|text| text.chars().count() as u64)
}

fn count(value: &Value) -> Option<u64> {
    value.as_array().map(|all| all.len() as u64)
}

fn has_form(text: &str, form: &str) -> bool {
    match form {
        "date-time" => text.parse::<hookledger::base::clock::Timestamp>().is_ok(),
        "uuid" => uuid::Uuid::try_parse(text).is_ok(),
        other => panic!("{other} is no format"),
    }
}

/// Every `(method, path)` that a file's `.route(…)` calls serve, `prefix` before the paths.
fn routes(file: &str, prefix: &str) -> BTreeSet<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let source: TokenStream = std::fs::read_to_string(file).unwrap().parse().unwrap();
    let mut found = BTreeSet::new();
    collect(source, prefix, &mut found);
    found
}

fn collect(source: TokenStream, prefix: &str, found: &mut BTreeSet<(String, String)>) {
    let tokens: Vec<TokenTree> = source.into_iter().collect();
    for pair in tokens.windows(2) {
        let [TokenTree::Ident(name), TokenTree::Group(group)] = pair else {
            continue;
        };
        let inner: Vec<TokenTree> = group.stream().into_iter().collect();
        if let (true, Some(TokenTree::Literal(path))) = (name == "route", inner.first()) {
            let path = path.to_string();
            let path = format!("{prefix}{}", path.trim_matches('"'));
            for word in &inner {
                if let TokenTree::Ident(word) = word
                    && ["get", "post", "put", "patch", "delete"].contains(&&*word.to_string())
                {
                    found.insert((word.to_string(), path.clone()));
                }
            }
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            collect(group.stream(), prefix, found);
        }
    }
}

#[test]
fn every_route_is_in_the_document_and_nothing_else() {
    let mut served: BTreeSet<(String, String)> = routes("src/http/admin/mod.rs", "/api/v1")
        .into_iter()
        // Nested under nothing.
        .map(|(method, path)| (method, path.replace("/api/v1/metrics", "/metrics")))
        .chain(routes("src/http/health/routes.rs", ""))
        .collect();
    // One route with the slashes of a name in it stands for two paths.
    for (method, path) in [
        ("get", "/api/v1/operations/{name}"),
        ("post", "/api/v1/operations/{name}/retry"),
    ] {
        let route = (method.to_owned(), "/api/v1/operations/{*rest}".to_owned());
        assert!(served.remove(&route), "{route:?}");
        served.insert((method.to_owned(), path.to_owned()));
    }
    let documented: BTreeSet<(String, String)> = DOCUMENT["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (method.clone(), path.clone()))
        })
        .collect();
    assert!(served.len() > 25, "only {} routes were found", served.len());
    assert_eq!(documented, served);
}

#[test]
fn every_post_tells_of_its_refusals_and_takes_a_key() {
    let every = [
        "400", "401", "403", "408", "409", "413", "415", "422", "500", "503",
    ];
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            let wanted = if method == "post" {
                &every[..]
            } else {
                &["400"]
            };
            for status in wanted {
                assert!(answers.contains_key(*status), "{method} {path} {status}");
            }
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let keyed = parameters
                .map(followed)
                .any(|p| p["name"] == "Idempotency-Key");
            assert_eq!(keyed, method == "post", "{method} {path}");
            for answer in answers.values() {
                assert!(followed(answer)["content"].is_object(), "{method} {path}");
            }
        }
    }
}

/// Words that the source spells: those of a type's `ALL`, those of the problems' codes.
#[test]
fn closed_sets_are_those_of_the_source() {
    use hookledger::domain::effect::EffectState;
    use hookledger::domain::ledger::Told;
    use hookledger::domain::operation::{Kind, OperationState};
    use hookledger::domain::work::{Reason, WorkState};
    let words = |schema: &str, field: &str| -> BTreeSet<String> {
        let words = &DOCUMENT["components"]["schemas"][schema]["properties"][field]["enum"];
        let words = words.as_array().unwrap().iter();
        words
            .filter_map(|w| w.as_str().map(ToOwned::to_owned))
            .collect()
    };
    let set = |all: &[&str]| -> BTreeSet<String> { all.iter().map(|w| (*w).to_owned()).collect() };
    let states = OperationState::ALL.map(OperationState::as_str);
    assert_eq!(words("Operation", "state"), set(&states));
    assert_eq!(
        words("Operation", "kind"),
        set(&Kind::ALL.map(Kind::as_str))
    );
    assert_eq!(
        words("Operation", "told"),
        set(&Told::ALL.map(Told::as_str))
    );
    assert_eq!(
        words("Operation", "settled_by"),
        set(&Reason::ALL.map(Reason::as_str))
    );
    assert_eq!(
        words("WorkItem", "state"),
        set(&WorkState::ALL.map(WorkState::as_str))
    );
    assert_eq!(
        words("Effect", "state"),
        set(&EffectState::ALL.map(EffectState::as_str))
    );
    assert_eq!(
        words("RetryEffects", "state"),
        set(&EffectState::STUCK.map(EffectState::as_str))
    );
}

#[test]
fn a_wrong_answer_does_not_fit() {
    let good = json!({"alerts": [{"subject": "a", "summary": "b",
        "opened_at": "2026-11-30T12:00:00Z", "recovered_at": null}]});
    let told = |status, kind: &str, body: &Value| {
        check(
            "GET",
            "/api/v1/alerts",
            status,
            kind,
            body.to_string().as_bytes(),
        )
    };
    let json = "application/json";
    assert_eq!(told(200, json, &good), Ok(()));
    assert!(told(201, json, &good).is_err());
    assert!(told(200, "text/html", &good).is_err());
    for (field, wrong) in [
        ("subject", json!(1)),
        ("opened_at", json!("soon")),
        ("opened_at", Value::Null),
        ("other", json!("x")),
    ] {
        let mut bad = good.clone();
        let alert = bad["alerts"][0].as_object_mut().unwrap();
        alert.insert(field.to_owned(), wrong);
        assert!(told(200, json, &bad).is_err(), "{field}");
    }
    let missing = json!({"alerts": [Map::new()]});
    assert!(told(200, json, &missing).is_err());
}
