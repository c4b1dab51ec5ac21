//! What refuses to start, told all at once, and what is only warned about.

use hookledger::config::Inputs;

use super::{ADMIN, API_KEY, SIGNING, TOKEN, doors, of_file, problems, warned};

#[test]
fn all_problems_are_told_at_once_each_with_its_key_and_a_fix() {
    let all = problems(&Inputs::new().with_text(
        "colour = 1\n[server]\nlistn = '127.0.0.1:1'\nmax_body = 'big'\nmax_connections = '5'\n\
         [reconcile]\ninterval = 60\ncheck_min = '2h'\n[worker]\nlease = '31s'\nfresh_slots = 32\n\
         [hooks]\ndedupe_ttl = '24h'\nshared_secret = 'short'\n[store]\nreaders = 0\n\
         [log]\nfilter = 'hookledger=loud'\n",
    ));
    let expected = [
        "colour: is not a key; remove it",
        "server.listn: is not a key; did you mean server.listen?",
        "server.max_body: is not a size of at least one byte; write a number and a unit",
        "server.max_connections: is not a whole number from 1 to 1000000",
        "reconcile.interval: is not a duration of 1ms to 100 years, with its unit; write",
        "reconcile.check_min: is longer than reconcile.check_max",
        "worker.lease: is not 5s longer than gemini.timeout",
        "worker.fresh_slots: leaves no slot",
        "hooks.dedupe_ttl: is shorter than the 24h of redelivery and hooks.tolerance",
        "hooks.path_token: is missing; set HOOK_PATH_TOKEN",
        "hooks.shared_secret: is only 5 bytes long",
        "store.readers: is not a whole number from 1 to 64",
        "log.filter: is not a list of directives",
    ];
    for start in expected {
        assert!(
            all.iter().any(|p| p.starts_with(start)),
            "{start}\nnot in {all:#?}"
        );
    }
    assert_eq!(all.len(), expected.len(), "{all:#?}");
}

#[test]
fn an_unknown_variable_of_ours_is_a_problem_and_a_near_miss_a_warning() {
    let inputs = doors().with_environment([
        ("HOOKLEDGER__RECONCILE__CHEK_MIN", "1s"),
        ("HOOKLEDGER__SERVER__LISTEN", "here"),
        ("PATH", "/bin"),
    ]);
    assert_eq!(
        problems(&inputs),
        [
            "server.listen: is not an IP address and a port (set by HOOKLEDGER__SERVER__LISTEN); \
             write one such as 127.0.0.1:8080 or [::1]:8080",
            "reconcile.chek_min: is not a key (set by HOOKLEDGER__RECONCILE__CHEK_MIN); did you \
             mean reconcile.check_min?",
        ]
    );
    for blank in ["HOOKLEDGER__SERVER__", "HOOKLEDGER__ "] {
        assert_eq!(
            problems(&doors().with_environment([(blank, "x")])),
            [format!(
                "{blank}: names no key; write HOOKLEDGER__SECTION__KEY"
            )]
        );
    }
    assert_eq!(problems(&doors().with_flag("server.lisen", "x")).len(), 1);
    let near = doors().with_environment([("GEMINI_APIKEY", API_KEY), ("HOME", "/root")]);
    assert!(warned(&near, "GEMINI_APIKEY"));
    assert!(!warned(&near, "HOME"));
}

#[test]
fn a_base_url_is_one_that_paths_can_follow() {
    for (url, part) in [
        ("", "is empty"),
        (
            "generativelanguage.googleapis.com",
            "is not an absolute URL",
        ),
        ("ftp://a.example", "is neither http nor https"),
        ("https://key@a.example", "holds a user name"),
        ("https://a.example/?key=x", "has a query or a fragment"),
    ] {
        let all = of_file(&format!("[gemini]\nbase_url = '{url}'"));
        assert_eq!(all.len(), 1, "{url}: {all:#?}");
        assert!(all[0].starts_with("gemini.base_url: "), "{all:#?}");
        assert!(all[0].contains(part), "{all:#?}");
    }
}

#[test]
fn a_section_given_as_a_value_is_told_apart_from_an_unknown_key() {
    for text in [
        "server = 5",
        "effects = 'x'",
        "sources = 1",
        "[sources]\nother = true",
    ] {
        let all = of_file(text);
        assert_eq!(all.len(), 1, "{text}: {all:#?}");
        assert!(all[0].contains("is a section, not a value"), "{all:#?}");
    }
    assert_eq!(
        of_file("effects = []\n[server]\n[gemini.extra_headers]"),
        [""; 0]
    );
}

#[test]
fn a_source_needs_a_proof_and_a_listener_beyond_loopback_a_token() {
    let all = of_file("[sources.bare]\nshared_header = false");
    assert_eq!(all.len(), 1);
    assert!(
        all[0].starts_with("sources.bare: accepts no proof at all"),
        "{all:#?}"
    );
    // With signatures alone no shared secret is asked for.
    let inputs = Inputs::new().with_environment([
        ("HOOK_PATH_TOKEN", TOKEN),
        ("GEMINI_WEBHOOK_SECRETS", SIGNING),
        ("HOOKLEDGER__SOURCES__GEMINI__SHARED_HEADER", "false"),
    ]);
    assert_eq!(problems(&inputs), [""; 0]);
    for address in ["0.0.0.0:8081", "192.0.2.1:8081", "[::]:8081"] {
        let open = doors().with_environment([("HOOKLEDGER_ADMIN_LISTEN", address)]);
        let all = problems(&open);
        assert!(
            all[0].contains("can be reached from other machines"),
            "{all:#?}"
        );
        let with_token = open.with_environment([("HOOKLEDGER_ADMIN_TOKEN", ADMIN)]);
        assert_eq!(problems(&with_token), [""; 0]);
    }
    assert_eq!(of_file("[admin]\nlisten = '[::1]:8081'"), [""; 0]);
    for same in ["127.0.0.1:8080", "[::]:8080"] {
        let all = of_file(&format!("[admin]\nlisten = '{same}'\ntoken = '{ADMIN}'"));
        assert!(
            all[0].contains("is the same address as server.listen"),
            "{all:#?}"
        );
    }
    assert_eq!(
        of_file("[server]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'"),
        [""; 0]
    );
}

#[test]
fn wrong_effects_are_told_with_their_place() {
    let one = |rest: &str| of_file(&format!("[[effects]]\nname = 'a'\n{rest}"));
    for (rest, start) in [
        (
            "kind = 'http'\nurl = 'ftp://a.example'",
            "effects.0.url: is neither http nor https",
        ),
        (
            "kind = 'http'\nurl = 'https://u:p@a.example'",
            "effects.0.url: holds a user name",
        ),
        ("kind = 'http'", "effects.0.url: is missing"),
        (
            "kind = 'htp'\nurl = 'https://a.example'",
            "effects.0.kind: is not one of \"http\", ",
        ),
        (
            "kind = 'command'\nargv = []",
            "effects.0.argv: names no program",
        ),
        (
            "kind = 'command'\nargv = 'true'",
            "effects.0.argv: is not a list of texts",
        ),
        ("kind = 'results'", "effects.0.directory: is missing"),
        ("kind = 'slack'", "effects.0.webhook_url: is missing"),
        (
            "kind = 'slack'\nwebhook_url = 'x'",
            "effects.0.webhook_url: is not an http address",
        ),
        (
            "kind = 'results'\ndirectory = 'x'\nurl = 'https://a.example'",
            "effects.0.url: is not a key",
        ),
        (
            "kind = 'results'\ndirectory = 'x'\non = ['pending']",
            "effects.0.on: has a word that is neither an ending nor a flag; use succeeded, ",
        ),
        (
            "kind = 'results'\ndirectory = 'x'\non = []",
            "effects.0.on: is empty",
        ),
        (
            "kind = 'results'\ndirectory = 'x'\n[delivery]\nlease = '9s'",
            "delivery.lease: is too short to be renewed in time",
        ),
        (
            "kind = 'results'\ndirectory = 'x'\n[alerts]\nto = ['a']",
            "alerts.to: names a results effect",
        ),
        (
            "kind = 'results'\ndirectory = 'x'\n[[effects]]\nname = 'a'\nkind = 'results'\n\
             directory = 'y'",
            "effects.1.name: is the name of an earlier effect too",
        ),
        (
            "kind = 'http'\nurl = 'https://a.example'\nheaders = { content-length = '3' }",
            "effects.0.headers.content-length: is not a header that can be set",
        ),
        (
            "kind = 'http'\nurl = 'https://a.example'\nsecret = 'weak'",
            "effects.0.secret: is neither whsec_ with a key of 24 to 64 bytes nor a strong text",
        ),
        (
            "kind = 'results'\ndirectory = 'x'\njob_kid = 'nightly'",
            "effects.0.job_kid: is not a key; did you mean effects.0.job_kind?",
        ),
        (
            "kind = 'http'\nurl = 'https://a.example'\nsecret_env = 'NOT_THERE'",
            "effects.0.secret: is to come from the variable NOT_THERE, which is not set; set NOT_THERE",
        ),
    ] {
        let all = one(rest);
        assert_eq!(all.len(), 1, "{rest}: {all:#?}");
        assert!(all[0].starts_with(start), "{rest}: {all:#?}");
    }
    assert!(of_file("[alerts]\nto = ['nobody']")[0].contains("does not exist"));
    assert!(
        of_file("[[effects]]\nname = 'a b'\nkind = 'results'\ndirectory = 'x'")[0]
            .starts_with("effects.0.name: is not a legal name")
    );
}

#[test]
fn unwise_settings_are_warned_about() {
    let http = |url| doors().with_environment([("GEMINI_BASE_URL", url)]);
    assert!(warned(&http("http://gateway.example"), "gemini.base_url"));
    assert!(!warned(&http("http://127.0.0.1:9"), "gemini.base_url"));
    assert!(!warned(&http("http://[::1]:9"), "gemini.base_url"));
    let signed = doors().with_environment([("GEMINI_WEBHOOK_SECRETS", SIGNING)]);
    assert!(warned(&signed, "sources.gemini.require"));
    assert!(!warned(&signed, "sources.gemini.signing_secrets"));
    let all = signed.with_environment([("HOOKLEDGER__SOURCES__GEMINI__REQUIRE", "all")]);
    assert!(!warned(&all, "sources.gemini.require"));
    assert!(warned(&all, "sources.gemini.audiences"));
    let with = |key: &str, value: &str| {
        let name = format!("HOOKLEDGER__SOURCES__GEMINI__{key}");
        doors().with_environment([(name.as_str(), value)])
    };
    let (audiences, urls) = ("sources.gemini.audiences", "sources.gemini.jwks_urls");
    assert!(!warned(&with("JWT", "false"), audiences));
    assert!(!warned(&with("AUDIENCES", "mine"), audiences));
    assert!(warned(&with("JWKS_URLS", "http://keys.example/"), urls));
    assert!(!warned(&with("JWKS_URLS", "http://127.0.0.1:9/"), urls));
}

#[test]
fn tokens_need_key_sets_that_can_be_asked() {
    for (urls, problem) in [
        (
            "[]",
            "sources.gemini.jwks_urls: is empty, and tokens are accepted",
        ),
        (
            "['keys.example']",
            "sources.gemini.jwks_urls: is not a list of http",
        ),
        (
            "['file:///etc/keys']",
            "sources.gemini.jwks_urls: is not a list of http",
        ),
        (
            "['https://u:canary@keys.example']",
            "sources.gemini.jwks_urls: is not a list of http",
        ),
        ("7", "sources.gemini.jwks_urls: is not a list of http"),
    ] {
        let all = of_file(&format!("[sources.gemini]\njwks_urls = {urls}"));
        assert_eq!(all.len(), 1, "{urls}: {all:?}");
        assert!(all[0].starts_with(problem), "{urls}: {all:?}");
        assert!(!all[0].contains("canary"));
    }
    let off = of_file("[sources.gemini]\njwt = false\njwks_urls = []");
    assert_eq!(off, Vec::<String>::new());
}

#[test]
fn a_file_that_is_not_there_or_not_toml_is_a_problem_with_its_place() {
    let all = problems(&doors().with_path("/nonexistent/hookledger.toml"));
    assert!(all[0].starts_with("--config: /nonexistent/hookledger.toml cannot be read"));
    let named = Inputs::new()
        .with_path("/nonexistent/hookledger.toml")
        .with_environment([("HOOKLEDGER_CONFIG", "/nonexistent/hookledger.toml")]);
    let all = problems(&named);
    assert!(
        all[0].starts_with("HOOKLEDGER_CONFIG: /nonexistent/hookledger.toml cannot"),
        "{all:#?}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.toml");
    std::fs::write(&path, "[server]\nlisten = = 1").unwrap();
    let all = problems(&doors().with_path(&path));
    let place = format!("{}, line 2, column 10: is not TOML", path.display());
    assert!(all[0].starts_with(&place), "{all:#?}");
    let all = of_file("[server]\nlisten = = 1");
    assert!(
        all[0].starts_with("line 2, column 10: is not TOML"),
        "{all:#?}"
    );
}

#[test]
fn an_effect_without_a_kind_is_judged_as_far_as_it_goes() {
    let all = of_file(
        "[[effects]]\nname = 'a'\nkind = 'http'\nurl = 'https://a.example'\n\
         [[effects]]\nname = 'b'\nurl = 'nowhere'\nurll = 'x'\njob_kid = 'k'\nargv = 7\n",
    );
    let starts = [
        "effects.1.kind: is missing",
        "effects.1.url: is not an absolute URL",
        "effects.1.argv: is not a list of texts",
        "effects.1.job_kid: is not a key; did you mean effects.1.job_kind?",
        "effects.1.urll: is not a key; did you mean effects.1.url?",
    ];
    for start in starts {
        assert!(
            all.iter().any(|p| p.starts_with(start)),
            "{start}: {all:#?}"
        );
    }
    assert_eq!(all.len(), starts.len(), "{all:#?}");
}

#[test]
fn a_guess_stays_in_its_table() {
    let all = of_file(
        "[[effects]]\nname = 'a'\nkind = 'http'\nurl = 'https://a.example'\n\
         [[effects]]\nname = 'b'\nkind = 'results'\ndirectory = 'x'\nurl = 'https://a.example'\n",
    );
    assert_eq!(all.len(), 1, "{all:#?}");
    assert!(
        all[0].starts_with("effects.1.url: is not a key"),
        "{all:#?}"
    );
    assert!(!all[0].contains("effects.0"), "{all:#?}");
}

#[test]
fn a_mistyped_variable_is_named_and_told_also_when_something_else_refuses() {
    for (name, meant) in [
        ("HOOKLEDGER_LISTENN", "HOOKLEDGER_LISTEN"),
        ("HOOK_DBB", "HOOK_DB"),
        ("HOOKLEDGER_CONFG", "HOOKLEDGER_CONFIG"),
        ("HOOKLEDGER_STORE_PATH", "HOOKLEDGER__STORE__PATH"),
        ("HOOKLEDGER_SERVER__LISTEN", "HOOKLEDGER__SERVER__LISTEN"),
    ] {
        let inputs = doors().with_environment([(name, "x")]);
        assert!(warned(&inputs, name), "{name}");
        let all = problems(&Inputs::new().with_environment([(name, "x")]));
        let line = format!("{name}: is read by nobody; did you mean {meant}?");
        assert!(all.iter().any(|p| p.starts_with(&line)), "{all:#?}");
    }
    let others = doors().with_environment([
        ("HOOKLEDGER_CONFIG", "x"),
        ("HOOKLEDGER_SERVICE_HOST", "x"),
        ("HOOKLEDGER_PORT_8080_TCP", "x"),
    ]);
    for name in [
        "HOOKLEDGER_CONFIG",
        "HOOKLEDGER_SERVICE_HOST",
        "HOOKLEDGER_PORT_8080_TCP",
    ] {
        assert!(!warned(&others, name), "{name}");
    }
}

#[test]
fn a_key_without_a_name_is_told_by_its_quotes() {
    let all = problems(&Inputs::new().with_text("\"\" = 1\n[worker]\n\" \" = 2\n"));
    for wanted in ["\"\": is not a key", "worker.\" \": is not a key"] {
        assert!(
            all.iter().any(|problem| problem.starts_with(wanted)),
            "{wanted}: {all:?}"
        );
    }
}
