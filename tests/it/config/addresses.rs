//! `sources.NAME.allow_from`, beside the listener and the proxies it depends on.

use super::{doors, of_file, problems, serve, warned};

#[test]
fn a_list_that_would_keep_everybody_out_refuses_and_one_that_needs_a_proxy_warns() {
    let key = "sources.gemini.allow_from";
    let file = |listen: &str, proxies: &str, allowed: &str| {
        doors().with_text(format!(
            "[server]\nlisten = '{listen}:8080'\ntrusted_proxies = [{proxies}]\n\
             [sources.gemini]\nallow_from = ['{allowed}']\n"
        ))
    };
    let behind = file("127.0.0.1", "", "198.51.100.0/24");
    let all = problems(&behind);
    assert_eq!(all.len(), 1, "{all:#?}");
    let start = "sources.gemini.allow_from: would refuse every delivery: server.listen is loopback";
    assert!(all[0].starts_with(start), "{all:#?}");
    for (listen, proxies, allowed, warns) in [
        ("127.0.0.1", "'127.0.0.1'", "198.51.100.0/24", false),
        ("0.0.0.0", "'172.16.0.0/12'", "198.51.100.0/24", false),
        ("0.0.0.0", "", "198.51.100.0/24", true),
        ("127.0.0.1", "", "127.0.0.0/8", true),
        ("0.0.0.0", "'172.16.0.0/12'", "172.18.0.5", true),
        ("0.0.0.0", "'172.18.0.5'", "172.16.0.0/12", true),
    ] {
        let inputs = file(listen, proxies, allowed);
        assert_eq!(problems(&inputs), [] as [String; 0], "{listen} {proxies}");
        let case = format!("{listen} [{proxies}] {allowed}");
        assert_eq!(warned(&inputs, key), warns, "{case}");
    }
    assert!(!warned(&doors(), key));
}

#[test]
fn a_source_without_a_list_takes_each_source_s() {
    let text = "[each_source]\nallow_from = ['198.51.100.0/24']\n[server]\n\
                trusted_proxies = ['10.0.0.0/8']\n[sources.other]\n[sources.own]\n\
                allow_from = ['2001:db8::/32']\n";
    let sources = serve(&doors().with_text(text)).unwrap().settings.sources;
    let of = |name: &str| sources[name].allow_from.clone();
    assert_eq!(of("other"), ["198.51.100.0/24".parse().unwrap()]);
    assert_eq!(of("own"), ["2001:db8::/32".parse().unwrap()]);
    assert!(of("gemini").is_empty(), "it has a list of its own: none");
    let wrong = of_file("[sources.gemini]\nallow_from = ['198.51.100.0/33']\n");
    let start = "sources.gemini.allow_from: has an entry that is not a network";
    assert!(
        wrong.len() == 1 && wrong[0].starts_with(start),
        "{wrong:#?}"
    );
}
