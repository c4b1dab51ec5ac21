//! Whether all is well, in a sentence; and if not, what is not, why, and what repairs it.
//!
//! Nothing is found here that health, the ledger's figures and the open alerts do not say. This puts
//! them into the order in which a person should take them up.

use maud::{Markup, html};

use super::super::health::{Report, Status};
use super::parts::{Tone, count, words};
use crate::domain::ledger::Alert;
use crate::store::Gauges;

/// Most things told in the sentence.
const TOLD: usize = 4;

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Concern {
    pub(super) tone: Tone,
    /// What, in a few words.
    pub(super) what: String,
    /// Why, or what it means.
    pub(super) why: String,
    /// Where it is repaired: a page of ours and the words on the way to it.
    pub(super) way: Option<(String, &'static str)>,
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) tone: Tone,
    pub(super) concerns: Vec<Concern>,
}

impl Verdict {
    pub(super) fn of(report: &Report, gauges: Option<&Gauges>, alerts: &[Alert]) -> Self {
        let mut concerns = of_health(report);
        if let Some(gauges) = gauges {
            concerns.extend(of_figures(gauges));
        }
        // Effects and dead letters have alerts of their own, and are told by their figures above.
        let told = |subject: &str| subject.starts_with("effect/") || subject == "queue/dead";
        let paused = report.fetching_paused;
        let rest = alerts.iter().filter(|alert| {
            let subject = alert.subject.as_str();
            let key = subject == "gemini/key" && paused;
            !(told(subject) || key || is_flag(subject))
        });
        concerns.extend(rest.map(of_alert));
        concerns.sort_by_key(|c| std::cmp::Reverse(c.tone));
        let tone = concerns.first().map_or(Tone::Good, |c| c.tone);
        Self { tone, concerns }
    }

    /// For the browser's tab.
    pub(super) fn title(&self) -> String {
        match (self.tone, self.concerns.len()) {
            (Tone::Good, _) => "All is well".to_owned(),
            (_, 1) => "1 thing to look at".to_owned(),
            (_, n) => format!("{n} things to look at"),
        }
    }

    /// The sentence. `well` is what is told when nothing is wrong.
    pub(super) fn sentence(&self, well: &str) -> Markup {
        let mut names: Vec<String> = self.concerns.iter().map(|c| c.what.clone()).collect();
        if names.len() > TOLD {
            let rest = names.len() - TOLD;
            names.truncate(TOLD);
            names.push(format!("and {rest} more"));
        }
        let (lead, rest) = match self.tone {
            Tone::Good | Tone::Plain | Tone::Going => ("All is well: ", well.to_owned()),
            Tone::Watch => ("It works; look at this: ", names.join("; ")),
            Tone::Bad => ("This needs you: ", names.join("; ")),
        };
        html! { strong { (lead) } (words(&rest)) "." }
    }
}

/// Flags of single operations are told by their figures.
fn is_flag(subject: &str) -> bool {
    let flags = ["/overdue", "/gone", "/anomalous"];
    subject.starts_with("operation/") && flags.iter().any(|flag| subject.ends_with(flag))
}

fn of_health(report: &Report) -> Vec<Concern> {
    let tone = match report.status {
        Status::Ok => Tone::Good,
        Status::Degraded => Tone::Watch,
        Status::Failing => Tone::Bad,
    };
    let concern = |reason: &String| {
        let (why, way) = if reason.contains("key") {
            let why = "Nothing is fetched and nothing is lost. Put the right key in and send SIGHUP; it \
                       goes on by itself within five minutes.";
            (why, None)
        } else if reason.contains("disk") || reason.contains("store") {
            let why = "Deliveries are answered 503 and the provider tries again. `hookledger doctor` \
                       says what is wrong with disk and file.";
            (why, None)
        } else if reason.contains("due work") {
            let why = "The API is slow or down, or there is more than the limits let through.";
            (why, Some(("/queue?state=ready".to_owned(), "To the queue")))
        } else if reason.contains("loop") {
            let why = "It is started again by itself when it dies; one that hangs wants a restart of \
                       the service.";
            (why, None)
        } else {
            ("It goes on by itself when its cause ends.", None)
        };
        Concern {
            tone,
            what: reason.clone(),
            why: why.to_owned(),
            way,
        }
    };
    report.reasons.iter().map(concern).collect()
}

fn of_figures(g: &Gauges) -> Vec<Concern> {
    let effects = |state: &str| format!("/effects?state={state}");
    let operations = |state: &str| format!("/operations?{state}");
    let rows = [
        (
            g.dead,
            Tone::Bad,
            ("dead letter", "dead letters"),
            "A look was given up after too many answers that could not be used. Its operation is not \
             settled by it.",
            ("/queue?state=dead".to_owned(), "To the dead letters"),
        ),
        (
            g.effects_dead,
            Tone::Bad,
            ("dead effect", "dead effects"),
            "Given up, or refused for good. Mend the receiver, then retry: the key stays the same.",
            (effects("dead"), "To the dead effects"),
        ),
        (
            g.effects_held,
            Tone::Bad,
            ("held effect", "held effects"),
            "It left, and nobody knows whether it arrived. Ask the receiver, then say how it ended.",
            (effects("held"), "To the held effects"),
        ),
        (
            g.effects_ambiguous,
            Tone::Watch,
            ("ambiguous effect", "ambiguous effects"),
            "It may have arrived and is sent again with the same key, by itself.",
            (effects("ambiguous"), "To the ambiguous effects"),
        ),
        (
            g.overdue,
            Tone::Watch,
            ("overdue operation", "overdue operations"),
            "Pending for longer than reconcile.stuck_after. It is still watched; look at the job at \
             the provider.",
            (operations("overdue=true"), "To the overdue operations"),
        ),
        (
            g.anomalous,
            Tone::Watch,
            ("anomalous operation", "anomalous operations"),
            "The provider says done, with neither response nor error. It is looked at daily.",
            (operations("state=anomalous"), "To these operations"),
        ),
        (
            g.gone,
            Tone::Watch,
            ("operation that is gone", "operations that are gone"),
            "The API has said for a day that there is no such name: another key's job, or deleted \
             there.",
            (operations("state=gone"), "To these operations"),
        ),
    ];
    let some = rows.into_iter().filter(|(n, ..)| *n > 0);
    some.map(|(n, tone, (one, many), why, way)| Concern {
        tone,
        what: count(n, one, many),
        why: why.to_owned(),
        way: Some(way),
    })
    .collect()
}

fn of_alert(alert: &Alert) -> Concern {
    Concern {
        tone: Tone::Bad,
        what: alert.summary.clone(),
        why: what_to_do(&alert.subject).to_owned(),
        way: way_of(&alert.subject),
    }
}

/// What a person does about an alert.
pub(super) fn what_to_do(subject: &str) -> &'static str {
    match subject {
        "gemini/key" => {
            "Put the right key in and send SIGHUP; it goes on by itself within five minutes."
        }
        "queue/dead" => "See why each was given up, mend that, then retry.",
        "subscription/state" => {
            "Mend why deliveries failed. It is enabled again by itself, later each time; at once with \
             `hookledger webhooks sync`."
        }
        "subscription/drift" => {
            "Somebody changed the record: `hookledger webhooks sync --dry-run`, then `sync`."
        }
        "subscription/canary" => {
            "Try the public address from outside: DNS, certificate, proxy. Until then endings are \
             found by the timer."
        }
        "subscription/rotation" => {
            "No delivery was signed with the new secret, or the file of secrets cannot be used: \
             `hookledger webhooks ping`."
        }
        "webhooks/rescued" => {
            "See whether deliveries reach this service: address, proxy, the provider's record. It ends \
             when webhooks have told endings for an hour."
        }
        "store/disk" => "Make room on the disk of the ledger, or prune; it ends by itself then.",
        _ if subject.starts_with("loop/") => {
            "The log says why it died. A silent one is freed by a restart of the service."
        }
        _ if subject.starts_with("effect/") => {
            "Mend the receiver, then retry; or ask it, then say how it ended."
        }
        _ if subject.ends_with("/overdue") => {
            "Look at the job at the provider; it is still watched."
        }
        _ if subject.ends_with("/gone") => {
            "Another key's job, or deleted there. It is looked at daily."
        }
        _ if subject.ends_with("/requires_action") => {
            "The interaction waits for a client: answer it at the provider."
        }
        _ => "It ends by itself when its cause does.",
    }
}

/// Where its subject is shown.
pub(super) fn way_of(subject: &str) -> Option<(String, &'static str)> {
    let id = |rest: &str| rest.split('/').next().unwrap_or_default().to_owned();
    if let Some(rest) = subject.strip_prefix("operation/") {
        return Some((format!("/operations/{}", id(rest)), "To the operation"));
    }
    if let Some(rest) = subject.strip_prefix("effect/") {
        return Some((format!("/effects/{}", id(rest)), "To the effect"));
    }
    if subject == "webhooks/rescued" {
        let path = "/operations?told=rescued".to_owned();
        return Some((path, "To the rescued operations"));
    }
    (subject == "queue/dead").then(|| ("/queue?state=dead".to_owned(), "To the dead letters"))
}

#[cfg(test)]
mod tests {
    use super::super::super::health::Answer;
    use super::*;
    use crate::base::clock::Timestamp;

    fn report(status: Status, reasons: &[&str]) -> Report {
        Report {
            status,
            reasons: reasons.iter().map(|r| (*r).to_owned()).collect(),
            writer: Answer::Ok,
            reader: Answer::Ok,
            loops: Vec::new(),
            oldest_due_age_ms: None,
            dead_letters: None,
            overdue: None,
            alerts_open: None,
            disk_free_bytes: None,
            disk_min_bytes: 0,
            waiting_bytes: 0,
            fetching_paused: false,
        }
    }

    fn alert(subject: &str) -> Alert {
        Alert {
            subject: subject.to_owned(),
            summary: format!("about {subject}"),
            opened_at: Timestamp::from_millis(0),
            recovered_at: None,
        }
    }

    #[test]
    fn nothing_wrong_is_one_sentence() {
        let verdict = Verdict::of(&report(Status::Ok, &[]), Some(&Gauges::default()), &[]);
        assert_eq!(verdict.tone, Tone::Good);
        let sentence = verdict.sentence("nothing is open").into_string();
        assert_eq!(sentence, "<strong>All is well: </strong>nothing is open.");
    }

    #[test]
    fn the_worst_comes_first_and_each_thing_is_told_once() {
        let gauges = Gauges {
            dead: 1,
            overdue: 2,
            effects_held: 3,
            ..Gauges::default()
        };
        let alerts = [
            "queue/dead",
            "effect/x",
            "operation/y/overdue",
            "subscription/canary",
        ];
        let verdict = Verdict::of(
            &report(
                Status::Degraded,
                &["due work has been waiting for over ten minutes"],
            ),
            Some(&gauges),
            &alerts.map(alert),
        );
        let told: Vec<(&str, Tone)> = verdict
            .concerns
            .iter()
            .map(|c| (c.what.as_str(), c.tone))
            .collect();
        assert_eq!(
            told,
            [
                ("1 dead letter", Tone::Bad),
                ("3 held effects", Tone::Bad),
                ("about subscription/canary", Tone::Bad),
                (
                    "due work has been waiting for over ten minutes",
                    Tone::Watch
                ),
                ("2 overdue operations", Tone::Watch),
            ]
        );
        assert_eq!(verdict.title(), "5 things to look at");
        assert!(
            verdict
                .sentence("")
                .into_string()
                .contains("This needs you")
        );
    }

    #[test]
    fn an_alert_leads_to_its_subject() {
        let way = |subject: &str| way_of(subject).map(|(path, _)| path);
        assert_eq!(
            way("operation/abc/overdue").as_deref(),
            Some("/operations/abc")
        );
        assert_eq!(way("effect/abc").as_deref(), Some("/effects/abc"));
        assert_eq!(way("queue/dead").as_deref(), Some("/queue?state=dead"));
        assert_eq!(
            way("webhooks/rescued").as_deref(),
            Some("/operations?told=rescued")
        );
        assert_eq!(way("gemini/key"), None);
    }
}
