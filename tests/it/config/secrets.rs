//! Secrets: where they may come from, how good they must be, and that they never show.

use std::os::unix::fs::PermissionsExt as _;

use hookledger::config::{self, Inputs, Purpose};

use super::{ADMIN, API_KEY, SHARED, SIGNING, TOKEN, doors, leaves, problems, serve, warned};

#[test]
fn a_secret_comes_from_a_file_less_one_line_end() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let token = write("token", &format!("{TOKEN}\n"), 0o600);
    let shared = write("shared", SHARED, 0o644);
    let signing = write("signing", &format!("{SIGNING}\n{SIGNING}\n"), 0o600);
    let inputs = Inputs::new()
        .with_text(format!("[hooks]\nshared_secret_file = '{shared}'"))
        .with_environment([
            ("HOOK_PATH_TOKEN_FILE", &token),
            ("GEMINI_WEBHOOK_SECRETS_FILE", &signing),
        ]);
    let loaded = serve(&inputs).unwrap();
    let hooks = &loaded.settings.hooks;
    assert_eq!(hooks.path_token.as_ref().unwrap().expose(), TOKEN);
    assert_eq!(hooks.shared_secret.as_ref().unwrap().expose(), SHARED);
    assert_eq!(loaded.settings.sources["gemini"].signing_secrets.len(), 2);
    assert!(
        warned(&inputs, "hooks.shared_secret"),
        "0644 is readable by others"
    );
    assert!(!warned(&inputs, "hooks.path_token"));

    let config = write("config.toml", &format!("[admin]\ntoken = '{ADMIN}'"), 0o644);
    assert!(warned(&doors().with_path(&config), "--config"));
    let config = write("tight.toml", &format!("[admin]\ntoken = '{ADMIN}'"), 0o600);
    assert!(!warned(&doors().with_path(&config), "--config"));
    let config = write("dull.toml", "[server]\nmax_in_flight = 3", 0o644);
    assert!(!warned(&doors().with_path(&config), "--config"));

    // The environment replaces the file's way of giving it.
    let inputs = inputs.with_environment([("HOOK_SHARED_SECRET", ADMIN)]);
    let hooks = serve(&inputs).unwrap().settings.hooks;
    assert_eq!(hooks.shared_secret.unwrap().expose(), ADMIN);

    let both = doors().with_environment([("HOOK_PATH_TOKEN_FILE", &token)]);
    let all = problems(&both);
    assert!(all[0].contains("set twice, by HOOK_PATH_TOKEN and by HOOK_PATH_TOKEN_FILE"));

    let empty = write("empty", "\n", 0o600);
    let spaced = write("spaced", &format!("{TOKEN}\n\n"), 0o600);
    let missing = "/nonexistent/token".to_owned();
    let directory = dir.path().to_str().unwrap().to_owned();
    for (path, what) in [
        (&empty, "names a file that is empty"),
        (&spaced, "begins or ends with white space"),
        (&missing, "names a file that does not exist"),
        (&directory, "names a file that cannot be read"),
    ] {
        let inputs = Inputs::new().with_environment([
            ("HOOK_PATH_TOKEN_FILE", path.as_str()),
            ("HOOK_SHARED_SECRET", SHARED),
        ]);
        let all = problems(&inputs);
        assert!(
            all[0].starts_with(&format!("hooks.path_token: {what}")),
            "{all:#?}"
        );
        assert_eq!(all.len(), 1, "{all:#?}");
        let client = config::load(&inputs, Purpose::Client).unwrap();
        assert!(client.warnings[0].what.starts_with(what));
    }
}

#[test]
fn weak_or_misshapen_secrets_refuse_to_start() {
    let long_and_dull = "ababababababababababababababab";
    for (name, value, part) in [
        ("HOOK_PATH_TOKEN", "short", "is only 5 bytes long"),
        (
            "HOOK_PATH_TOKEN",
            long_and_dull,
            "has only 2 different characters",
        ),
        (
            "HOOK_PATH_TOKEN",
            "0123456789abcdef/0123456789",
            "not safe in a URL",
        ),
        ("HOOK_PATH_TOKEN", "   ", "is set but empty"),
        ("HOOK_SHARED_SECRET", "", "is set but empty"),
        (
            "HOOK_SHARED_SECRET",
            "ünïcödé-ünïcödé-ünïcödé",
            "no header can carry",
        ),
        (
            "HOOK_SHARED_SECRET",
            TOKEN,
            "is the same as hooks.path_token",
        ),
        ("HOOKLEDGER_ADMIN_TOKEN", "weak", "is only 4 bytes long"),
        (
            "HOOKLEDGER_ADMIN_TOKEN",
            "has a space 0123456789abcdef",
            "has a space",
        ),
        (
            "GEMINI_WEBHOOK_SECRETS",
            "whsec_c2hvcnQ=",
            "is not a key of 24 to 64",
        ),
        (
            "GEMINI_WEBHOOK_SECRETS",
            "whsec_",
            "is not a key of 24 to 64",
        ),
    ] {
        let mut inputs = doors();
        inputs.environment.retain(|(n, _)| n != name);
        let all = problems(&inputs.with_environment([(name, value)]));
        assert!(
            all.iter().any(|p| p.contains(part)),
            "{name}: {part}: {all:#?}"
        );
    }
}

#[test]
fn no_secret_shows_in_settings_warnings_or_the_effective_configuration() {
    let text = "[[effects]]\nname = 'a'\nkind = 'http'\nurl = 'https://a.example/canary-url'\n\
                headers = { authorization = 'canary-header' }\nsecret = 'canary-effect-secret-0123456789'\n\
                [[effects]]\nname = 'b'\nkind = 'slack'\nwebhook_url = 'https://s.example/canary'\n\
                [[effects]]\nname = 'c'\nkind = 'command'\nargv = ['/bin/x', 'canary-argument']\n\
                [gemini.extra_headers]\nx-gateway = 'canary-gateway'\n";
    let inputs = doors().with_text(text).with_environment([
        ("GEMINI_API_KEY", API_KEY),
        ("HOOKLEDGER_ADMIN_TOKEN", ADMIN),
        ("GEMINI_WEBHOOK_SECRETS", "whsec_canary0123456789abcdefghij"),
    ]);
    let loaded = serve(&inputs).unwrap();
    let shown = loaded.effective.to_json();
    assert_eq!(shown["hooks.path_token"]["value"], "[secret]");
    assert_eq!(shown["effects.0.url"]["value"], "https://a.example/...");
    assert_eq!(shown["effects.2.argv"]["value"], "/bin/x (1 arguments)");
    for text in [
        shown.to_string(),
        format!("{:?}{:?}", loaded.effective, loaded.warnings),
        format!("{inputs:?}"),
    ] {
        assert!(!text.contains("canary"), "{text}");
    }
    // The settings' own Debug keeps what is not declared a secret: addresses and commands.
    let debug = format!("{:?}", loaded.settings)
        .replace("canary-url", "")
        .replace("canary-argument", "");
    assert!(!debug.contains("canary"), "{debug}");
}

#[test]
fn a_value_under_the_wrong_key_is_never_repeated() {
    let mut keys = Vec::new();
    leaves("", &config::DEFAULT.parse().unwrap(), &mut keys);
    let names = keys
        .iter()
        .map(|(key, _)| {
            format!(
                "HOOKLEDGER__{}",
                key.replace('.', "__").to_ascii_uppercase()
            )
        })
        .chain(
            config::SHORT_NAMES
                .iter()
                .flat_map(|(name, _)| [(*name).to_owned(), format!("{name}_FILE")]),
        )
        .chain([
            "HOOKLEDGER__NO__SUCH_KEY".to_owned(),
            "HOOKLEDGER__".to_owned(),
        ]);
    for name in names {
        for value in [
            "canary",
            "canary/é 0123456789",
            "https://canary:canary@x.example/",
        ] {
            let mut inputs = doors();
            inputs.environment.retain(|(n, _)| *n != *name);
            let inputs = inputs.with_environment([(name.as_str(), value)]);
            match serve(&inputs) {
                Err(problems) => {
                    let text = format!("{problems} {problems:?}");
                    assert!(!text.contains("canary"), "{name}: {text}");
                }
                Ok(loaded) => {
                    let text = format!("{:?}", loaded.warnings);
                    assert!(!text.contains("canary"), "{name}: {text}");
                }
            }
        }
    }
    for text in [
        "[hooks]\npath_token = canary",
        "[hooks]\npath_token = \"canary",
        "[hooks]\npath_token = 'canary\n'",
        "[hooks\npath_token = 'canary'",
        "path_token = 'a' canary",
        "[hooks]\npath_token = '''canary",
        "[hooks]\npath_token = ['canary', canary]",
        "[hooks]\npath_token = 5\nshared_secret = ['canary']",
    ] {
        // Without the doors' secrets from elsewhere, which would replace these.
        let all = problems(&Inputs::new().with_text(text));
        assert!(all.iter().any(|p| !p.contains("is missing")), "{text}");
        assert!(!all.concat().contains("canary"), "{text}: {all:#?}");
    }
}
