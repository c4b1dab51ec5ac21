//! `doctor`: well or not, in both forms, and never a change to the file.

use std::sync::Arc;

use hookledger::base::clock::SystemClock;
use hookledger::base::ids::RandomIds;
use hookledger::base::shutdown::Shutdown;
use hookledger::simulator::{Fault, FaultKind, Simulator, SimulatorConfig};
use serde_json::Value;

use super::Place;
use super::running::Running;
use crate::support::process::address;

fn check<'a>(document: &'a Value, name: &str) -> &'a Value {
    let checks = document["checks"].as_array().unwrap();
    checks.iter().find(|c| c["check"] == name).unwrap()
}

/// A place with a ledger beside a simulator whose time is the machine's.
async fn stage() -> (Place, Arc<Simulator>) {
    let mut place = tokio::task::spawn_blocking(|| Place::new().with_ledger())
        .await
        .unwrap();
    let clock = Arc::new(SystemClock::new());
    let ids = Arc::new(RandomIds::seeded(7));
    let fake = Simulator::new(SimulatorConfig::default(), clock.clone(), ids);
    place.set("GEMINI_BASE_URL", &serve(fake.router(), clock).await);
    place.set("HOOKLEDGER__STORE__MIN_FREE_DISK", "1MiB");
    (place, fake)
}

async fn serve(router: axum::Router, clock: Arc<SystemClock>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    Shutdown::new(clock).spawn("aside", async move {
        axum::serve(listener, router).await.unwrap();
    });
    base
}

/// What `doctor` finds in one check: its state, and its note or its first finding in one text.
fn told(place: &Place, name: &str) -> (String, String) {
    let document = place.run(&["--json", "doctor"]).json();
    let found = check(&document, name);
    let state = found["state"].as_str().unwrap().to_owned();
    let finding = &found["findings"][0];
    let text = format!(
        "{} {} {}",
        found["note"], finding["what"], finding["remedy"]
    );
    (state, text)
}

fn is(told: &(String, String), state: &str, words: &str) {
    assert!(
        told.0 == state && told.1.contains(words),
        "{state}, {words}: {told:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_is_held_against_the_api_s() {
    let (place, fake) = stage().await;
    is(&told(&place, "clock"), "ok", "as the API's");
    let off = |kind, ms| {
        let mut fault = Fault::once(kind).on("/models");
        fault.ms = Some(ms);
        fake.fault(fault);
    };
    off(FaultKind::DateAhead, 600_000);
    is(&told(&place, "clock"), "problem", "behind the API's");
    off(FaultKind::DateBehind, 600_000);
    is(
        &told(&place, "clock"),
        "problem",
        "timedatectl set-ntp true",
    );
    off(FaultKind::DateBehind, 60_000);
    is(&told(&place, "clock"), "warning", "ahead of the API's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_accepted_refused_or_not_there() {
    let (mut place, fake) = stage().await;
    is(&told(&place, "key"), "ok", "accepted");
    fake.fault(Fault::once(FaultKind::KeyInvalid).times(0));
    is(
        &told(&place, "key"),
        "problem",
        "gemini.api_key (GEMINI_API_KEY)",
    );
    is(&told(&place, "models"), "skipped", "the key is refused");
    fake.clear_faults();
    fake.fault(Fault::once(FaultKind::Forbidden).times(0));
    is(&told(&place, "key"), "problem", "the key may not");
    place
        .environment
        .retain(|(name, _)| name != "GEMINI_API_KEY");
    is(&told(&place, "key"), "problem", "nothing settles");
    is(&told(&place, "clock"), "skipped", "no API key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_does_not_answer_as_itself_is_told_of() {
    let (mut place, fake) = stage().await;
    is(&told(&place, "models"), "ok", "listed");
    fake.fault(Fault::once(FaultKind::HtmlNotFound).on("/batches"));
    is(&told(&place, "models"), "problem", "gemini.base_url");
    fake.fault(Fault::once(FaultKind::RateLimited).on("/models"));
    is(&told(&place, "models"), "warning", "429");
    fake.fault(Fault::once(FaultKind::Hang).on("/models"));
    is(&told(&place, "models"), "problem", "no answer within 5s");
    place.set("GEMINI_BASE_URL", &format!("http://{}", address()));
    is(&told(&place, "models"), "problem", "connecting failed");
    is(&told(&place, "key"), "skipped", "no answer to judge by");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_subscription_is_looked_at() {
    let (mut place, _fake) = stage().await;
    is(&told(&place, "webhook"), "skipped", "server.public_url");
    place.set("HOOKLEDGER__SERVER__PUBLIC_URL", "https://hooks.invalid");
    is(&told(&place, "webhook"), "warning", "webhooks sync");
    place.set("HOOKLEDGER__SUBSCRIPTION__SECRETS_FILE", "secrets.json");
    place.json(&["webhooks", "sync"]);
    is(&told(&place, "webhook"), "ok", "as configured");
    place.json(&["webhooks", "update", "--event", "batch.failed"]);
    is(&told(&place, "webhook"), "problem", "it lacks");
    place.json(&["webhooks", "update", "--state", "disabled"]);
    is(&told(&place, "webhook"), "problem", "nothing is delivered");
    is(
        &told(&place, "path"),
        "problem",
        "cannot be reached from here",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_public_address_must_lead_to_this_very_process() {
    let (mut place, _fake) = stage().await;
    is(&told(&place, "path"), "skipped", "server.public_url");
    let public = format!("http://{}", place.get("HOOKLEDGER_LISTEN"));
    place.set("HOOKLEDGER__SERVER__PUBLIC_URL", &public);
    is(
        &told(&place, "path"),
        "problem",
        "cannot be reached from here",
    );
    let service = Running::serve(&place);
    is(&told(&place, "path"), "ok", "arrives at this process");

    let mut twin = Place::new().with_ledger();
    twin.set("GEMINI_BASE_URL", place.get("GEMINI_BASE_URL"));
    let other = Running::serve(&twin);
    let elsewhere = format!("http://{}", twin.get("HOOKLEDGER_LISTEN"));
    place.set("HOOKLEDGER__SERVER__PUBLIC_URL", &elsewhere);
    is(
        &told(&place, "path"),
        "problem",
        "another hookledger answers",
    );
    drop(other);

    let answers = |code: u16| {
        let status = http::StatusCode::from_u16(code).unwrap();
        axum::Router::new().fallback(move || async move { status })
    };
    for (code, words) in [
        (502, "does not reach"),
        (308, "redirect"),
        (404, "something else"),
    ] {
        let aside = serve(answers(code), Arc::new(SystemClock::new())).await;
        place.set("HOOKLEDGER__SERVER__PUBLIC_URL", &aside);
        is(&told(&place, "path"), "problem", words);
    }
    drop(service);
    is(
        &told(&place, "path"),
        "skipped",
        "systemctl start hookledger",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_installation_is_well() {
    let (place, _fake) = stage().await;
    let document = place.json(&["doctor"]);
    assert_eq!(document["well"], true, "{document:#}");
    // No audience is pinned, nobody is told of an ending, and so on: well, but worth a word.
    assert_eq!(check(&document, "configuration")["state"], "warning");
    for name in ["disk", "file", "ledger", "key", "clock", "models"] {
        assert_eq!(check(&document, name)["state"], "ok", "{document:#}");
    }
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let heads = ran.stdout.lines().filter(|line| !line.starts_with(' '));
    assert_eq!(heads.count(), 9, "{}", ran.stdout);
}

#[tokio::test]
async fn a_broken_promise_is_a_line_that_says_where_and_what_to_do() {
    let mut place = Place::new().with_ledger();
    place.set("GEMINI_BASE_URL", "http://127.0.0.1:9");
    place.set("HOOKLEDGER__STORE__MIN_FREE_DISK", "1MiB");
    place.sql("DROP TRIGGER operations_settled_once").await;
    let ran = place.run(&["doctor"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let line = "  I3 trigger operations_settled_once: is missing: a settled operation could change; \
                somebody changed the schema: restore the last backup";
    assert!(ran.stdout.lines().any(|l| l == line), "{}", ran.stdout);
    let ran = place.run(&["--json", "doctor"]);
    assert_eq!(ran.code, 1);
    let document = ran.json();
    let ledger = check(&document, "ledger");
    assert_eq!(
        (&document["well"], &ledger["state"]),
        (&false.into(), &"problem".into())
    );
    assert_eq!(ledger["findings"][0]["invariant"], "I3");
    assert_eq!(check(&document, "file")["state"], "ok");
}

#[test]
fn each_check_tells_its_own_trouble() {
    let mut place = Place::bare().with_ledger();
    place.set("HOOKLEDGER__STORE__MIN_FREE_DISK", "1000TiB");
    let ran = place.run(&["--json", "doctor"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let document = ran.json();
    let configuration = check(&document, "configuration");
    let missing = configuration["findings"].as_array().unwrap();
    assert!(
        missing.iter().any(|f| f["place"] == "hooks.path_token"),
        "{document:#}"
    );
    let disk = check(&document, "disk")["findings"][0]["what"].to_string();
    assert!(disk.contains("store.min_free_disk is"), "{disk}");
    assert_eq!(check(&document, "ledger")["state"], "ok");

    let mut empty = Place::new();
    empty.set("GEMINI_BASE_URL", "http://127.0.0.1:9");
    let document = empty.run(&["--json", "doctor"]).json();
    let file = check(&document, "file")["findings"][0]["what"].to_string();
    assert!(file.contains("does not exist"), "{file}");
    assert_eq!(check(&document, "ledger")["state"], "skipped");
    assert!(!empty.path().join("webhook.db").exists(), "nothing is made");

    let unreadable = empty
        .run(&["--json", "--set", "store.path=", "doctor"])
        .json();
    assert_eq!(
        check(&unreadable, "configuration")["state"],
        "problem",
        "{unreadable:#}"
    );
}
