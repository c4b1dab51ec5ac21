//! What the provider says: the time, of the key, of models and batches, of the subscription.
//!
//! One look tells of clock, key and models; the list of batches is asked besides, because that is what
//! the service lives on and a gateway may pass the one and not the other. All with the service's own
//! client, so what works here works there.

use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;

use super::WAIT;
use super::end::{End, Finding};
use crate::base::clock::SystemClock;
use crate::config::Settings;
use crate::domain::fault::Fault;
use crate::gemini::GeminiApi as _;
use crate::gemini::client::HttpGemini;
use crate::gemini::glance::{Glance, Skew};
use crate::gemini::webhooks::Webhook;
use crate::reconcile::wanted::Wanted;

/// A difference that does no harm yet, but grows.
const CLOCK_WARNS: Duration = Duration::from_secs(10);

const NO_KEY: &str = "no API key is set, so the API is not asked";

pub(super) async fn checks(settings: &Settings) -> [End; 4] {
    if settings.gemini.api_key.is_none() {
        let missing = Finding::new(
            "no API key is set: nothing is fetched, so nothing settles",
            "set GEMINI_API_KEY or GEMINI_API_KEY_FILE (gemini.api_key)",
        );
        return [
            End::skipped(NO_KEY),
            missing.at("gemini.api_key").into(),
            End::skipped(NO_KEY),
            End::skipped(NO_KEY),
        ];
    }
    let mut gemini = settings.gemini.clone();
    gemini.timeout = gemini.timeout.min(WAIT);
    let api = match HttpGemini::new(&gemini, Arc::new(SystemClock::new())) {
        Ok(api) => api,
        Err(error) => {
            let why = error.to_string();
            return [(); 4].map(|()| End::skipped(why.clone()));
        }
    };
    let (glance, batches, webhook) = tokio::join!(
        tokio::time::timeout(WAIT * 2, api.glance()),
        tokio::time::timeout(WAIT * 2, api.probe()),
        tokio::time::timeout(WAIT * 2, webhook(settings, &api)),
    );
    let glance = glance.unwrap_or_else(|_| Err(slow()));
    let batches = batches.unwrap_or_else(|_| Err(slow()));
    let webhook = webhook.unwrap_or_else(|_| unasked(&slow()));
    [
        clock(&glance, settings.hooks.tolerance),
        key(&glance, &batches),
        reachable(&glance, &batches),
        webhook,
    ]
}

fn slow() -> Fault {
    Fault::Unavailable {
        retry_after: None,
        what: format!("no answer within {}", format_duration(WAIT * 2)),
    }
}

/// Signed times are compared with this machine's, so a clock that is off refuses every delivery.
fn clock(glance: &Result<Glance, Fault>, tolerance: Duration) -> End {
    let skew = match glance {
        Err(fault) => return unasked(fault),
        Ok(Glance { clock: None, .. }) => {
            return End::skipped("the API's answer does not say the time");
        }
        Ok(Glance {
            clock: Some(skew), ..
        }) => *skew,
    };
    let (by, way) = match skew {
        Skew::None => return End::Ok("as the API's".to_owned()),
        Skew::Ahead(by) => (by, "ahead of"),
        Skew::Behind(by) => (by, "behind"),
    };
    let by_words = format_duration(Duration::from_secs(by.as_secs()));
    if by < CLOCK_WARNS.min(tolerance) {
        return End::Ok(format!("{by_words} {way} the API's"));
    }
    let finding = Finding::new(
        format!(
            "this machine's clock is {by_words} {way} the API's; deliveries signed more than {} away \
             from it are refused",
            format_duration(tolerance)
        ),
        "let the machine keep time: `timedatectl set-ntp true`, then look with `timedatectl \
         timesync-status`",
    );
    if by < tolerance / 2 {
        finding.mild().into()
    } else {
        finding.into()
    }
}

fn key(glance: &Result<Glance, Fault>, batches: &Result<(), Fault>) -> End {
    let looked = match glance {
        Ok(Glance { refused: None, .. }) => None,
        Ok(Glance {
            refused: Some(fault),
            ..
        })
        | Err(fault) => Some(fault),
    };
    for fault in [looked, batches.as_ref().err()].into_iter().flatten() {
        let finding = match fault {
            Fault::KeyRefused { what } => Finding::new(
                format!("the API refuses the key: {what}"),
                "set another in gemini.api_key (GEMINI_API_KEY) and send the service SIGHUP; keys are \
                 made at https://aistudio.google.com/apikey",
            ),
            Fault::Forbidden { what } => Finding::new(
                format!("the key may not: {what}"),
                "allow it the Generative Language API, and this machine's address, where its \
                 restrictions are set; the key must be of the project that submits the jobs",
            ),
            _ => continue,
        };
        return finding.at("gemini.api_key").into();
    }
    match (looked, batches) {
        (None, _) | (_, Ok(())) => End::Ok("accepted".to_owned()),
        (Some(Fault::Throttled { .. }), _) => {
            End::Ok("accepted, but the quota is used up at the moment".to_owned())
        }
        (Some(fault), _) => unasked(fault),
    }
}

fn reachable(glance: &Result<Glance, Fault>, batches: &Result<(), Fault>) -> End {
    let models = match glance {
        Ok(glance) => glance.refused.as_ref(),
        Err(fault) => Some(fault),
    };
    let asked = [("models", models), ("batches", batches.as_ref().err())];
    if let [(_, Some(Fault::KeyRefused { .. })), _] = asked {
        return End::skipped("the key is refused");
    }
    let findings = asked.into_iter().filter_map(|(list, fault)| {
        let fault = fault?;
        let finding = match fault {
            Fault::Throttled { .. } => Finding::new(
                fault.to_string(),
                "wait, ask for more quota, or set gemini.requests_per_second",
            )
            .mild(),
            Fault::KeyRefused { .. } | Fault::Forbidden { .. } => return None,
            _ => Finding::new(
                fault.to_string(),
                "check gemini.base_url and gemini.api_version, DNS, the firewall, and the gateway if one \
                 stands there; https://status.cloud.google.com tells of outages",
            ),
        };
        Some(finding.at(list))
    });
    End::of(findings.collect(), "models and batches are listed")
}

async fn webhook(settings: &Settings, api: &HttpGemini) -> End {
    let Some(wanted) = Wanted::new(settings) else {
        return End::skipped(
            "where deliveries go is not configured (server.public_url, or subscription.uri)",
        );
    };
    match wanted.find(api).await {
        Err(fault @ (Fault::KeyRefused { .. } | Fault::Unavailable { .. })) => unasked(&fault),
        Err(fault) => Finding::new(
            format!("the provider's record cannot be looked at: {fault}"),
            "see `hookledger webhooks list`",
        )
        .into(),
        Ok(None) => {
            let missing = Finding::new(
                "the provider has no webhook for this service: only jobs that name their own are told",
                "`hookledger webhooks sync` makes it",
            );
            let missing = missing.at("subscription");
            // Whoever names the webhook with each job needs no subscription.
            if settings.subscription.enabled || wanted.id.is_some() {
                missing.into()
            } else {
                missing.mild().into()
            }
        }
        Ok(Some(found)) => End::of(
            judged(&wanted, &found),
            format!("{} is enabled and as configured", found.id),
        ),
    }
}

fn judged(wanted: &Wanted, found: &Webhook) -> Vec<Finding> {
    let place = format!("webhook {}", found.id);
    let differs = wanted.differences(found).into_iter().map(|difference| {
        Finding::new(
            format!("is not as configured: {difference}"),
            "see `hookledger webhooks sync --dry-run`, then `hookledger webhooks sync`",
        )
    });
    let state = found.state.clone().unwrap_or_default();
    let disabled = (!found.delivers()).then(|| {
        let remedy = if state.contains("failed_deliveries") {
            "deliveries failed for too long: mend the check `path` first, then `hookledger webhooks sync`"
        } else {
            "`hookledger webhooks sync` enables it"
        };
        Finding::new(format!("is {state}: nothing is delivered"), remedy)
    });
    disabled
        .into_iter()
        .chain(differs)
        .map(|finding| finding.at(&place))
        .collect()
}

fn unasked(fault: &Fault) -> End {
    End::skipped(match fault {
        Fault::KeyRefused { .. } => "the key is refused".to_owned(),
        other => format!("the API gives no answer to judge by: {other}"),
    })
}
