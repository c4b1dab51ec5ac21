//! Configuration through its public seam: here the layers and what they add up to.

mod addresses;
mod admin;
mod problems;
mod secrets;

use std::time::Duration;

use hookledger::config::settings::{Action, Require};
use hookledger::config::{self, Inputs, Loaded, Problems, Purpose};
use hookledger::domain::effect::AmbiguousPolicy::{Hold, Retry};

const TOKEN: &str = "canary-path-token-0123456789abcdef";
const SHARED: &str = "canary-shared-secret-0123456789abc";
const ADMIN: &str = "canary-admin-token-0123456789abcdef";
const API_KEY: &str = "canary-api-key-AIza0123456789";
/// base64 of 32 varied bytes.
const SIGNING: &str = "whsec_azN5MG9mMHRoaXJ0eTJ0d28wYXNjaWkwYnl0ZXMwb2s=";

fn doors() -> Inputs {
    Inputs::new().with_environment([("HOOK_PATH_TOKEN", TOKEN), ("HOOK_SHARED_SECRET", SHARED)])
}

fn serve(inputs: &Inputs) -> Result<Loaded, Problems> {
    config::load(inputs, Purpose::Serve)
}

fn problems(inputs: &Inputs) -> Vec<String> {
    match serve(inputs) {
        Ok(_) => Vec::new(),
        Err(Problems(list)) => list.iter().map(ToString::to_string).collect(),
    }
}

/// The problems of a file, given the doors' secrets.
fn of_file(text: &str) -> Vec<String> {
    problems(&doors().with_text(text))
}

fn warned(inputs: &Inputs, key: &str) -> bool {
    serve(inputs).unwrap().warnings.iter().any(|w| w.key == key)
}

#[test]
fn the_defaults_serve_once_the_doors_have_their_secrets() {
    let loaded = serve(&doors()).unwrap();
    let s = loaded.settings;
    assert_eq!(s.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(s.admin.listen.to_string(), "127.0.0.1:8081");
    assert_eq!(s.server.max_body, 256 * 1024);
    assert_eq!(s.hooks.tolerance, Duration::from_secs(300));
    assert_eq!(s.store.path.to_str(), Some("webhook.db"));
    assert_eq!(s.reconcile.stuck_after, Duration::from_secs(6 * 3600));
    assert_eq!(s.sources["gemini"].require, Require::Any);
    assert!(s.sources["gemini"].shared_header);
    assert!(s.effects.is_empty());
    let keys: Vec<_> = loaded.warnings.iter().map(|w| w.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "sources.gemini.audiences",
            "sources.gemini.signing_secrets",
            "gemini.api_key",
            "effects",
            "admin.token"
        ]
    );
}

#[test]
fn without_them_serve_says_what_to_set_and_a_client_does_not_mind() {
    let all = problems(&Inputs::new());
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(all[0].starts_with("hooks.path_token: is missing; set HOOK_PATH_TOKEN or"));
    assert!(all[1].starts_with("hooks.shared_secret: is missing; set HOOK_SHARED_SECRET or"));
    let client = config::load(&Inputs::new(), Purpose::Client).unwrap();
    assert!(client.warnings.is_empty());
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let file = "[server]\nlisten = '127.0.0.1:1'\nmax_in_flight = 5\nmax_connections = 6";
    let inputs = doors()
        .with_text(file)
        .with_environment([
            ("HOOKLEDGER_LISTEN", "127.0.0.1:2"),
            ("HOOKLEDGER__SERVER__MAX_CONNECTIONS", "7"),
        ])
        .with_flag("server.listen", "127.0.0.1:3");
    let loaded = serve(&inputs).unwrap();
    let server = loaded.settings.server;
    assert_eq!(server.listen.port(), 3);
    assert_eq!(server.max_connections, 7);
    assert_eq!(server.max_in_flight, 5);
    let shown = loaded.effective.to_json();
    assert_eq!(shown["server.listen"]["from"], "flag");
    assert_eq!(
        shown["server.max_connections"]["from"],
        "HOOKLEDGER__SERVER__MAX_CONNECTIONS"
    );
    assert_eq!(shown["server.max_in_flight"]["from"], "file");
    assert_eq!(shown["server.body_timeout"]["from"], "default");
}

#[test]
fn every_short_name_reaches_its_key() {
    let inputs = Inputs::new().with_environment([
        ("HOOK_PATH_TOKEN", TOKEN),
        ("HOOK_SHARED_SECRET", SHARED),
        ("HOOK_DB", "/data/ledger.db"),
        ("GEMINI_API_KEY", API_KEY),
        ("GEMINI_BASE_URL", "http://127.0.0.1:9000"),
        (
            "GEMINI_WEBHOOK_SECRETS",
            &format!("{SIGNING}, whsec_abcdefghijklmnopqrstuvwxyz012345"),
        ),
        ("HOOKLEDGER_LISTEN", "0.0.0.0:80"),
        ("HOOKLEDGER_ADMIN_LISTEN", "0.0.0.0:81"),
        ("HOOKLEDGER_ADMIN_TOKEN", ADMIN),
    ]);
    let s = serve(&inputs).unwrap().settings;
    assert_eq!(s.hooks.path_token.unwrap().expose(), TOKEN);
    assert_eq!(s.hooks.shared_secret.unwrap().expose(), SHARED);
    assert_eq!(s.store.path.to_str(), Some("/data/ledger.db"));
    assert_eq!(s.gemini.api_key.unwrap().expose(), API_KEY);
    assert_eq!(s.gemini.base_url.as_str(), "http://127.0.0.1:9000/");
    let signing = &s.sources["gemini"].signing_secrets;
    assert_eq!(signing[0].expose(), SIGNING);
    assert_eq!(signing.len(), 2);
    assert_eq!(s.server.listen.to_string(), "0.0.0.0:80");
    assert_eq!(s.admin.listen.to_string(), "0.0.0.0:81");
    assert_eq!(s.admin.token.unwrap().expose(), ADMIN);
    assert_eq!(
        config::SHORT_NAMES.len(),
        9,
        "a new short name wants a line here"
    );
}

/// A legal value other than the default, as the environment would give it.
fn another(key: &str, default: &toml::Value) -> String {
    match (key, default) {
        ("server.listen", _) => "127.0.0.1:9001".into(),
        ("admin.listen", _) => "127.0.0.1:9002".into(),
        ("server.trusted_proxies", _) => "10.0.0.0/8,::1".into(),
        (k, _) if k.ends_with(".allow_from") => "198.51.100.0/24".into(),
        ("alerts.to", _) => "notify".into(),
        ("sources.gemini.signing_secrets", _) => SIGNING.into(),
        (k, _) if k.ends_with(".jwks_urls") => "https://keys.example/a, http://[::1]:9/b".into(),
        (k, _) if k.ends_with(".audiences") || k.ends_with(".issuers") => "one,two".into(),
        ("each_effect.on", _) => "failed,overdue".into(),
        ("each_effect.ambiguous", _) => "hold".into(),
        ("each_effect.job_kind", _) => "nightly-*".into(),
        ("gemini.api_version", _) => "v1".into(),
        ("store.path", _) => "other.db".into(),
        ("ledger.unregistered", _) => "ignore".into(),
        ("log.filter", _) => "debug".into(),
        ("log.format", _) => "json".into(),
        ("worker.fresh_slots", _) => "3".into(),
        ("hooks.dedupe_ttl", _) => "8d".into(),
        ("subscription.uri", _) => "https://other.example".into(),
        ("subscription.events", _) => "batch.failed".into(),
        ("traces.endpoint", _) => "https://other.example/v1/traces".into(),
        ("traces.sample_percent", _) => "99".into(),
        (_, toml::Value::Boolean(b)) => (!b).to_string(),
        (_, toml::Value::Integer(n)) => (n + 1).to_string(),
        (k, _) if k.ends_with("require") => "all".into(),
        (k, _) if k.ends_with("_url") => "https://other.example".into(),
        (_, toml::Value::String(text)) if text.is_empty() => ADMIN.into(),
        (_, toml::Value::String(text)) => match humantime::parse_duration(text) {
            Ok(d) => humantime::format_duration(d + Duration::from_secs(1))
                .to_string()
                .replace(' ', ""),
            Err(_) => "7MiB".into(),
        },
        _ => unreachable!("{key} has a default this test knows no other value for"),
    }
}

fn leaves(at: &str, table: &toml::Table, into: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let key = format!("{at}{name}");
        match value {
            toml::Value::Table(inner) => leaves(&format!("{key}."), inner, into),
            leaf => into.push((key, leaf.clone())),
        }
    }
}

#[test]
fn every_default_key_changes_the_settings_when_the_environment_sets_it() {
    // A source and an effect that leave everything out, so that each_source and each_effect show.
    let base = Inputs::new().with_text(
        "[sources.other]\n[[effects]]\nname = 'notify'\nkind = 'http'\nurl = 'https://a.example'\n\
         [[effects]]\nname = 'keep'\nkind = 'results'\ndirectory = 'x'",
    );
    let plain = |key: &str| {
        // The doors are the environment's too: the one under test is set by its long name instead.
        let doors = [
            ("hooks.path_token", "HOOK_PATH_TOKEN", TOKEN),
            ("hooks.shared_secret", "HOOK_SHARED_SECRET", SHARED),
        ];
        let doors = doors.iter().filter(|(k, ..)| *k != key);
        base.clone()
            .with_environment(doors.map(|(_, name, v)| (*name, *v)))
    };
    let mut keys = Vec::new();
    leaves("", &config::DEFAULT.parse().unwrap(), &mut keys);
    assert!(keys.len() > 60, "only {} keys", keys.len());
    for (key, default) in keys {
        let name = format!(
            "HOOKLEDGER__{}",
            key.replace('.', "__").to_ascii_uppercase()
        );
        let value = another(&key, &default);
        let before = config::load(&plain(&key), Purpose::Client)
            .unwrap()
            .settings;
        let inputs = plain(&key).with_environment([(name.as_str(), value.as_str())]);
        let after = config::load(&inputs, Purpose::Client)
            .unwrap_or_else(|e| panic!("{name}={value}: {e}"));
        let (before, after) = (format!("{before:?}"), format!("{:?}", after.settings));
        assert_ne!(before, after, "{key} is read by nobody");
    }
}

#[test]
fn every_default_key_and_section_has_a_sentence_above_it() {
    let mut above = "";
    for line in config::DEFAULT.lines() {
        if !line.is_empty() && !line.starts_with('#') {
            assert!(above.starts_with("# "), "nothing is said above: {line}");
        }
        above = line;
    }
}

#[test]
fn the_example_loads() {
    let text = include_str!("../../../config/example.toml");
    let inputs = doors().with_text(text).with_environment([
        ("GEMINI_API_KEY", API_KEY),
        ("GEMINI_WEBHOOK_SECRETS", SIGNING),
        ("HOOKLEDGER_ADMIN_TOKEN", ADMIN),
        ("NOTIFY_SIGNING_SECRET", SIGNING),
    ]);
    let s = serve(&inputs).unwrap().settings;
    assert_eq!(s.alerts.to, ["notify"]);
    let Action::Http { secret, .. } = &s.effects[0].action else {
        panic!("{:?}", s.effects[0]);
    };
    assert_eq!(secret.as_ref().unwrap().expose(), SIGNING);
}

#[test]
fn effects_get_their_defaults_by_kind() {
    let text = "[[effects]]\nname = 'a'\nkind = 'http'\nurl = 'https://a.example/x'\n\
                [[effects]]\nname = 'b'\nkind = 'command'\nargv = ['/bin/true']\n\
                [[effects]]\nname = 'c'\nkind = 'slack'\nwebhook_url = 'https://hooks.example/T/B/x'\n\
                ambiguous = 'hold'\non = ['failed', 'overdue']\n\
                [[effects]]\nname = 'd'\nkind = 'results'\ndirectory = 'out'\ntimeout = '10s'";
    let effects = serve(&doors().with_text(text)).unwrap().settings.effects;
    let policies: Vec<_> = effects.iter().map(|e| e.rule.ambiguous).collect();
    assert_eq!(policies, [Retry, Hold, Hold, Retry]);
    assert_eq!(effects[0].rule.job_kind, "*");
    assert_eq!(effects[0].rule.on.len(), 1);
    assert_eq!(effects[2].rule.on.len(), 2);
    assert_eq!(effects[3].timeout, Duration::from_secs(10));
}

#[test]
fn the_environment_reaches_into_lists_hyphens_and_headers() {
    let inputs = doors()
        .with_text(
            "[sources.my-app]\n[[effects]]\nname = 'a'\nkind = 'http'\nurl = 'https://a.example'",
        )
        .with_environment([
            ("HOOKLEDGER__SOURCES__MY_APP__REQUIRE", "all"),
            ("HOOKLEDGER__EFFECTS__0__SECRET", SIGNING),
            (
                "HOOKLEDGER__GEMINI__EXTRA_HEADERS__CF_AIG_AUTHORIZATION",
                API_KEY,
            ),
            ("HOOKLEDGER__RECONCILE__STUCK_AFTER_BY_KIND__VIDEO", "100ms"),
        ]);
    let s = serve(&inputs).unwrap().settings;
    assert_eq!(s.sources["my-app"].require, Require::All);
    assert_eq!(
        s.gemini.extra_headers["cf-aig-authorization"].expose(),
        API_KEY
    );
    assert_eq!(
        s.reconcile.stuck_after_by_kind.values().collect::<Vec<_>>(),
        [&Duration::from_millis(100)]
    );
    assert!(matches!(
        &s.effects[0].action,
        Action::Http {
            secret: Some(_),
            ..
        }
    ));
}
