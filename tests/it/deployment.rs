//! The Dockerfile, docker-compose.yml and the test of the container speak of the same thing.

const IMAGE: &str = include_str!("../../Dockerfile");
const COMPOSE: &str = include_str!("../../docker-compose.yml");
const TRIED: &str = include_str!("../container/run.sh");
const IGNORED: &str = include_str!("../../.gitignore");

/// The lines of one service.
fn service(name: &str) -> &'static str {
    let (_, rest) = COMPOSE.split_once("\nservices:\n").unwrap();
    let services = rest.split("\nnetworks:\n").next().unwrap();
    let (_, own) = services.split_once(&format!("  {name}:\n")).unwrap();
    // The next line that is indented like a name ends it.
    let end = own.match_indices("\n  ").find(|(at, _)| {
        let next = own.get(at + 3..).unwrap();
        next.starts_with(|c: char| c.is_ascii_lowercase()) && !next.starts_with(' ')
    });
    own.get(..end.map_or(own.len(), |(at, _)| at)).unwrap()
}

/// What stands behind `key` in a service.
fn value(name: &str, key: &str) -> &'static str {
    let line = service(name)
        .lines()
        .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{name} has no {key}"))
}

#[test]
fn every_service_is_bounded_and_may_do_nothing() {
    let (_, hardened) = COMPOSE.split_once("&hardened\n").unwrap();
    let hardened = hardened.split("\n\n").next().unwrap();
    for line in [
        "read_only: true",
        "cap_drop: [ALL]",
        "no-new-privileges:true",
        "restart: unless-stopped",
        "max-size",
    ] {
        assert!(hardened.contains(line), "{line}");
    }
    for name in ["hookledger", "caddy", "simulator", "prometheus", "grafana"] {
        assert!(service(name).contains("<<: *hardened\n"), "{name}");
        value(name, "pids_limit");
        value(name, "mem_limit");
    }
    for (name, profile) in [
        ("simulator", "demo"),
        ("prometheus", "watch"),
        ("grafana", "watch"),
    ] {
        assert_eq!(value(name, "profiles"), format!("[{profile}]"));
    }
}

#[test]
fn the_container_is_tried_with_the_flags_of_compose() {
    let tmpfs = value("hookledger", "tmpfs");
    let flags = [
        "--read-only --cap-drop ALL --security-opt no-new-privileges".to_owned(),
        format!("--pids-limit {}", value("hookledger", "pids_limit")),
        format!("--memory {}", value("hookledger", "mem_limit")),
        format!("--tmpfs {}", tmpfs.trim_matches(['[', ']', '"'])),
    ];
    for flag in flags {
        assert!(TRIED.contains(&flag), "{flag}");
    }
    let files = service("hookledger")
        .lines()
        .filter(|l| l.contains("_FILE: /run/secrets/"));
    let files: Vec<_> = files.map(|l| l.trim().replace(": ", "=")).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert!(TRIED.contains(&format!("-e {file}")), "{file}");
    }
}

#[test]
fn secrets_are_files_that_git_ignores_and_none_stands_in_the_environment() {
    assert!(IGNORED.lines().any(|line| line == "/secrets"));
    let listed = value("hookledger", "secrets").trim_matches(['[', ']']);
    for name in listed.split(", ") {
        let file = format!("  {name}: {{ file: ./secrets/{name} }}\n");
        assert!(COMPOSE.contains(&file), "{name}");
    }
    for line in service("hookledger").lines().map(str::trim) {
        let Some((key, value)) = line.split_once(": ") else {
            continue;
        };
        let secret = ["TOKEN", "SECRET", "KEY"]
            .iter()
            .any(|word| key.contains(word));
        let is_place = value.starts_with("/run/secrets/") || value.starts_with("/data/");
        assert!(!secret || is_place, "{line}");
    }
}

#[test]
fn the_proxy_is_the_one_whose_headers_count() {
    let trusted = value("hookledger", "HOOKLEDGER__SERVER__TRUSTED_PROXIES");
    let network = format!("front:\n    ipam: {{ config: [{{ subnet: {trusted} }}] }}");
    assert!(COMPOSE.contains(&network), "{network}");
    assert_eq!(value("caddy", "networks"), "[front]");
    assert!(
        !service("hookledger").contains("8080:"),
        "the door is the proxy's to open"
    );
}

#[test]
fn the_image_is_small_and_belongs_to_nobody() {
    let (_, last) = IMAGE.split_once("\nFROM scratch\n").unwrap();
    let line = |word: &str| last.lines().find_map(|l| l.strip_prefix(word)).unwrap();
    let uid: u32 = line("USER ").split(':').next().unwrap().parse().unwrap();
    assert!(uid > 10_000);
    assert!(
        !last.contains("RUN "),
        "there is nothing in it that could run"
    );
    assert!(last.contains(r#"CMD ["/usr/local/bin/hookledger", "health", "--live"]"#));
    assert_eq!(line("STOPSIGNAL "), "SIGTERM");
}
