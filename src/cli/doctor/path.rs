//! Whether what the provider delivers arrives here: name, TLS, proxy, and this very process.
//!
//! Problem: an answer from the public address proves nothing. DNS may still name the old machine,
//! which answers just as well, or the proxy may answer itself.
//!
//! Design: one challenge is sent straight to `server.listen` and by way of the public address. Both
//! answers are the same exactly when one process gave them (`http::echo`). The request goes to the
//! path of deliveries with another word in the token's place, so no secret leaves. It is a GET, which
//! no listener of ours takes as a delivery.

use data_encoding::HEXLOWER;
use url::Url;

use super::WAIT;
use super::end::{End, Finding};
use crate::base::ids::{Ids as _, RandomIds};
use crate::cli::client::{Echo, base_of, challenge};
use crate::config::Settings;

/// Stands where the token does.
const WORD: &str = "doctor";

pub(super) async fn check(settings: &Settings) -> End {
    let Some(public) = settings.delivery_uri().as_deref().and_then(probe_of) else {
        return End::skipped(
            "the public address is not configured (server.public_url, or subscription.uri)",
        );
    };
    let listen = settings.server.listen;
    let Ok(here) = base_of(listen) else {
        return End::skipped(format!("{listen} cannot be connected to"));
    };
    let mut bytes = [0; 16];
    RandomIds::from_system().fill(&mut bytes);
    let word = HEXLOWER.encode(&bytes);
    let (inside, outside) = tokio::join!(
        challenge(here, &word, WAIT),
        challenge(public.clone(), &word, WAIT),
    );
    let mut findings: Vec<Finding> = in_clear(&public).into_iter().collect();
    match judged(settings, inside.ok(), outside) {
        End::Found(more) => findings.extend(more),
        other if findings.is_empty() => return other,
        _ => {}
    }
    End::Found(findings)
}

/// The address of deliveries without what only the provider may know.
fn probe_of(uri: &str) -> Option<Url> {
    let mut url = Url::parse(uri).ok()?;
    url.set_query(None);
    url.set_fragment(None);
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    url.path_segments_mut()
        .ok()?
        .pop_if_empty()
        .pop()
        .push(WORD);
    Some(url)
}

fn in_clear(public: &Url) -> Option<Finding> {
    let host = public.host_str().unwrap_or_default();
    let near = host.starts_with("127.") || host == "localhost" || host == "[::1]";
    (public.scheme() == "http" && !near).then(|| {
        Finding::new(
            "deliveries travel without TLS, their path token in clear text",
            "put a proxy with TLS in front (config/Caddyfile) and write https in the address",
        )
        .mild()
        .at("server.public_url")
    })
}

fn judged(settings: &Settings, inside: Option<Echo>, outside: Result<Echo, String>) -> End {
    let listen = settings.server.listen;
    let outside = match outside {
        Ok(outside) => outside,
        Err(why) => {
            return Finding::new(
                format!("the public address cannot be reached from here: {why}"),
                "check the name in DNS, the certificate, the firewall and whether the proxy runs",
            )
            .at("server.public_url")
            .into();
        }
    };
    let Some(inside) = inside else {
        return End::skipped(format!(
            "nothing answers at server.listen ({listen}) to compare with: start the service \
             (`systemctl start hookledger`) and ask again; the public address answers {}",
            outside.status
        ));
    };
    let Some(ours) = inside.echo else {
        return Finding::new(
            format!("what listens at {listen} is no hookledger of this version"),
            "stop it, or give hookledger another address",
        )
        .at("server.listen")
        .into();
    };
    match outside.echo {
        Some(theirs) if theirs == ours => {
            End::Ok("what is sent to the public address arrives at this process".to_owned())
        }
        Some(_) => Finding::new(
            "another hookledger answers at the public address",
            format!(
                "let DNS name this machine and the proxy's upstream be {listen}; stop the other one, \
                 which takes your deliveries"
            ),
        )
        .at("server.public_url")
        .into(),
        None => elsewhere(outside.status, &listen.to_string()).at("server.public_url").into(),
    }
}

/// Something without an echo answered.
fn elsewhere(status: u16, listen: &str) -> Finding {
    match status {
        300..=399 => Finding::new(
            format!(
                "the public address answers with a redirect ({status}), which loses deliveries"
            ),
            "give server.public_url as it is after the redirect",
        ),
        502..=504 => Finding::new(
            format!("a proxy answers {status}: it does not reach the service"),
            format!("set its upstream to {listen} (config/Caddyfile, HOOKLEDGER_UPSTREAM)"),
        ),
        _ => Finding::new(
            format!("something else answers at the public address ({status})"),
            format!("let the proxy pass /hooks/ to {listen} and keep the header hookledger-echo"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_never_leaves() {
        for (uri, probe) in [
            (
                "https://a.example/hooks/gemini/token",
                "https://a.example/hooks/gemini/doctor",
            ),
            (
                "https://u:p@a.example/x/token/?token=1#f",
                "https://a.example/x/doctor",
            ),
            ("https://a.example/token", "https://a.example/doctor"),
        ] {
            assert_eq!(probe_of(uri).unwrap().as_str(), probe);
        }
    }

    #[test]
    fn clear_text_is_told_of_beyond_this_machine() {
        let told = |uri: &str| in_clear(&uri.parse().unwrap()).is_some();
        assert!(told("http://a.example/x") && told("http://10.0.0.1/x"));
        assert!(!told("https://a.example/x") && !told("http://127.0.0.1:80/x"));
    }
}
