//! `[[admin.tokens]]`: several tokens, each with a name and a scope.

use hookledger::config::settings::Scope;

use super::{ADMIN, SHARED, TOKEN, doors, of_file, problems, serve, warned};

const READS: &str = "canary-reading-token-0123456789abcdef";

#[test]
fn tokens_come_from_files_and_variables_beside_the_simple_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, format!("{READS}\n")).unwrap();
    let text = format!(
        "[[admin.tokens]]\nname = 'dashboard'\nscope = 'read'\ntoken_file = '{}'\n\
         [[admin.tokens]]\nname = 'deploys'\nscope = 'full'\ntoken_env = 'DEPLOYS'\n",
        path.display()
    );
    let deploys = "canary-deploys-token-0123456789abcdef";
    let named = doors()
        .with_text(text)
        .with_environment([("DEPLOYS", deploys)]);
    assert!(!warned(&named, "admin.token"), "the API opens to some");
    let alone = serve(&named).unwrap().settings.admin;
    assert_eq!(alone.best().unwrap().expose(), deploys);
    let both = named.with_environment([("HOOKLEDGER_ADMIN_TOKEN", ADMIN)]);
    let loaded = serve(&both).unwrap();
    let admin = &loaded.settings.admin;
    let all: Vec<_> = admin
        .all()
        .map(|t| (t.name, t.scope, t.secret.expose()))
        .collect();
    let expected = [
        ("admin", Scope::Full, ADMIN),
        ("dashboard", Scope::Read, READS),
        ("deploys", Scope::Full, deploys),
    ];
    assert_eq!(all, expected);
    assert_eq!(admin.best().unwrap().expose(), ADMIN);
    let shown = format!("{} {admin:?}", loaded.effective.to_json());
    assert!(!shown.contains("canary"), "{shown}");
    // And wholly by the environment.
    let wholly = doors().with_environment([
        ("HOOKLEDGER__ADMIN__TOKENS__0__NAME", "a"),
        ("HOOKLEDGER__ADMIN__TOKENS__0__SCOPE", "read"),
        ("HOOKLEDGER__ADMIN__TOKENS__0__TOKEN", READS),
        ("HOOKLEDGER_ADMIN_LISTEN", "0.0.0.0:81"),
    ]);
    assert_eq!(problems(&wholly), [] as [String; 0]);
}

#[test]
fn weak_repeated_and_misshapen_tokens_are_told_all_at_once() {
    let text = format!(
        "[admin]\ntoken = '{ADMIN}'\n\
         [[admin.tokens]]\nname = 'admin'\nscope = 'read'\ntoken = '{READS}'\n\
         [[admin.tokens]]\nname = 'two'\nscope = 'full'\ntoken = '{ADMIN}'\n\
         [[admin.tokens]]\nname = 'two'\nscope = 'write'\ntoken = '{READS}'\n\
         [[admin.tokens]]\nname = 'a b'\ntoken = 'short'\n\
         [[admin.tokens]]\nname = 'none'\nscope = 'full'\n\
         [[admin.tokens]]\nname = 'path'\nscope = 'full'\ntoken = '{TOKEN}'\n\
         [[admin.tokens]]\nname = 'shared'\nscope = 'full'\ntoken = '{SHARED}'\n\
         [[admin.tokens]]\nname = 'space'\nscope = 'full'\ntoken = 'has a space 0123456789abcdef'\n"
    );
    let all = of_file(&text);
    let expected = [
        "admin.tokens.0.name: is the name of admin.token too;",
        "admin.tokens.1.token: is the same as admin.token;",
        "admin.tokens.2.name: is the name of admin.tokens.1.token too;",
        "admin.tokens.2.scope: is not one of \"read\", \"full\";",
        "admin.tokens.2.token: is the same as admin.tokens.0.token;",
        "admin.tokens.3.name: is not a legal name;",
        "admin.tokens.3.scope: is missing;",
        "admin.tokens.3.token: is only 5 bytes long;",
        "admin.tokens.4.token: is missing;",
        "admin.tokens.5.token: is the same as hooks.path_token;",
        "admin.tokens.6.token: is the same as hooks.shared_secret;",
        "admin.tokens.7.token: has a space in it;",
    ];
    let mut all: Vec<_> = all.iter().map(String::as_str).collect();
    all.sort_unstable();
    for start in expected {
        assert!(
            all.iter().any(|p| p.starts_with(start)),
            "{start}: {all:#?}"
        );
    }
    assert_eq!(all.len(), expected.len(), "{all:#?}");
    let single = format!("[admin]\ntoken = '{TOKEN}'\n");
    let all = of_file(&single);
    assert!(all[0].starts_with("admin.token: is the same as hooks.path_token"));
    assert!(!all.concat().contains("canary"));
}
