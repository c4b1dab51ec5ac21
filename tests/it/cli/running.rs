//! The ledger by way of a running service, and the service and the simulator as processes.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use super::{ADMIN, CANARIES, Place};

/// Long enough for anything that is to happen at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that does not outlive its test.
pub(super) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Running {
    pub(super) fn serve(place: &Place) -> Self {
        let log = std::fs::File::create(place.path().join("log")).unwrap();
        let child = place
            .program()
            .arg("serve")
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut running = Self(child);
        let clock = SystemClock::new();
        while place.run(&["health", "--ready"]).code != 0 {
            let log = || std::fs::read_to_string(place.path().join("log")).unwrap();
            assert!(running.0.try_wait().unwrap().is_none(), "{}", log());
            assert!(clock.monotonic() < PATIENCE, "{}", log());
        }
        running
    }

    /// Asks it to end, and wants it to end well.
    fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn one_command_through_the_service_says_what_it_says_through_the_file() {
    let mut place = Place::new();
    place.set(ADMIN.0, ADMIN.1);
    place.set("GEMINI_BASE_URL", "http://127.0.0.1:9");
    let mut service = Running::serve(&place);

    assert_eq!(place.run(&["health"]).code, 0);
    assert_eq!(place.run(&["health", "--live"]).code, 0);
    let name = "models/veo/operations/op1";
    let new = place.json(&[
        "operations",
        "register",
        "--name",
        name,
        "--job-kind",
        "clip",
    ]);
    let id = new["id"].as_str().unwrap().to_owned();
    let other = [
        "operations",
        "register",
        "--name",
        name,
        "--job-kind",
        "film",
    ];
    place.refused(4, &other);
    place.refused(3, &["operations", "show", "batches/none"]);
    place.refused(3, &["events", "curl", &id]);
    place.json(&["operations", "reserve", "--job-kind", "clip"]);
    place.json(&["operations", "retry", name]);
    assert_eq!(
        place.json(&["queue", "list"])["items"][0]["operation"],
        name
    );
    assert_eq!(place.json(&["queue", "retry"])["done"], 0);
    assert_eq!(place.json(&["alerts", "list"]), json!({"alerts": []}));
    let through = place.json(&["operations", "show", &id]);

    // A token it does not know: reading goes by the file, writing says what to do.
    place.set(ADMIN.0, "canary-another-token-0123456789ab");
    let shown = place.run(&["operations", "show", name, "--json"]);
    assert_eq!(shown.json()["id"], id.as_str());
    assert!(
        shown.stderr.contains("refuses this token"),
        "{}",
        shown.stderr
    );
    assert!(
        shown.stderr.contains("reading webhook.db"),
        "{}",
        shown.stderr
    );
    assert_eq!(shown.stderr.lines().count(), 1, "{}", shown.stderr);
    let told = place.refused(5, &["operations", "retry", name]);
    assert!(told.contains("refuses this token"), "{told}");

    place.set(ADMIN.0, ADMIN.1);
    service.stop();
    assert_eq!(place.run(&["health"]).code, 1);
    let file = place.json(&["operations", "show", &id]);
    let keys = |v: &Value| -> Vec<String> { v.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(&file), keys(&through));
    assert_eq!(file["name"], through["name"]);
    let log = std::fs::read_to_string(place.path().join("log")).unwrap();
    for (_, secret) in CANARIES.iter().chain([&ADMIN]) {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn health_needs_no_secret_and_answers_zero_or_one() {
    let place = Place::bare();
    let ran = place.run(&["health", "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(ran.json()["status"], "unreachable");
    assert_eq!(place.run(&["health", "--url", "ftp://x"]).code, 1);
    assert_eq!(place.run(&["health", "--set", "no.such=key"]).code, 1);
}

/// A simulator that posts to where `place` will serve, and its base URL.
fn simulate(place: &Place) -> (Running, String) {
    let door = format!(
        "http://{}/hooks/gemini/{}",
        place.get("HOOKLEDGER_LISTEN"),
        CANARIES[0].1
    );
    let mut child = place
        .program()
        .args(["simulate", "--listen", "127.0.0.1:0", "--json"])
        .env("WEBHOOK_URL", door)
        .env("WEBHOOK_SECRET", CANARIES[3].1)
        .env("WEBHOOK_SHARED_SECRET", CANARIES[1].1)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let running = Running(child);
    let mut text = String::new();
    for line in BufReader::new(stdout).lines() {
        text.push_str(&line.unwrap());
        if text.ends_with('}') {
            break;
        }
    }
    let told: Value = serde_json::from_str(&text).unwrap();
    (running, told["url"].as_str().unwrap().to_owned())
}

/// Looks until `seen` is happy with the operation.
fn wait(place: &Place, which: &str, seen: impl Fn(&Value) -> bool) -> Value {
    let clock = SystemClock::new();
    loop {
        let operation = place.json(&["operations", "show", which]);
        if seen(&operation) {
            return operation;
        }
        assert!(clock.monotonic() < PATIENCE, "{operation:#}");
    }
}

#[test]
fn a_job_of_the_simulator_settles_and_its_effect_is_a_person_s_to_decide() {
    let mut place = Place::new();
    place.set(ADMIN.0, ADMIN.1);
    place.set("HOOKLEDGER_CONFIG", "effects.toml");
    let effects = "[[effects]]\nname = 'notify'\nkind = 'command'\nargv = ['false']\n";
    std::fs::write(place.path().join("effects.toml"), effects).unwrap();
    let (mut simulator, base) = simulate(&place);
    place.set("GEMINI_BASE_URL", &base);
    let mut service = Running::serve(&place);

    // It ends only after it was registered: an ending between the two may be found by either.
    let job = r#"{"kind": "batch", "manual": true}"#;
    let made = place
        .command("curl")
        .args(["-sS", &format!("{base}/_sim/operations"), "-d", job])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let name = made["name"].as_str().unwrap();
    let register = ["operations", "register", "--job-kind", "k", "--name", name];
    let id = place.json(&register)["id"].as_str().unwrap().to_owned();
    let finished = place
        .command("curl")
        .args(["-sSf", &format!("{base}/_sim/operations/{name}/finish")])
        .args(["-d", r#"{"outcome": "succeeded"}"#])
        .output()
        .unwrap();
    assert!(finished.status.success(), "{finished:?}");
    let state = |o: &Value| o["effects"][0]["state"].as_str().map(ToOwned::to_owned);
    let refused = wait(&place, name, |o| state(o).as_deref() == Some("dead"));
    assert_eq!(
        (&refused["state"], &refused["settled_by"]),
        (&json!("succeeded"), &json!("webhook"))
    );
    assert_eq!(refused["side_effect_done"], false);
    let event = &place.json(&["events", "list", "--operation", &id])["events"][0];
    let replayed = place.json(&["events", "replay", event["id"].as_str().unwrap()]);
    assert_eq!(replayed["status"], "accepted");

    let effect = refused["effects"][0]["id"].as_str().unwrap();
    assert_eq!(place.json(&["effects", "show", effect])["state"], "dead");
    let again = place.run(&["effects", "retry", effect]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let tried = |o: &Value| state(o).as_deref() == Some("dead") && o["effects"][0]["attempts"] == 2;
    wait(&place, name, tried);
    let dead = place.json(&["effects", "list", "--state", "dead"]);
    assert_eq!(dead["effects"][0]["id"], effect);
    // Dead, so a word may be had through the service as well as, once it is gone, on the file.
    let resolve = ["effects", "resolve", effect, "--as", "dead"];
    assert_eq!(place.json(&resolve)["state"], "dead");
    service.stop();
    simulator.stop();
    let resolve = ["effects", "resolve", effect, "--as", "done"];
    assert_eq!(place.json(&resolve)["state"], "done");
    assert_eq!(
        place.json(&["operations", "show", name])["side_effect_done"],
        true
    );
}

#[test]
fn the_simulator_says_what_will_not_work() {
    let place = Place::new();
    let mut child = place
        .program()
        .args([
            "simulate",
            "--listen",
            "127.0.0.1:0",
            "--webhook-secret",
            "weak",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let running = Running(child);
    let line = BufReader::new(stdout).lines().next().unwrap().unwrap();
    assert!(line.contains("listens on"), "{line}");
    drop(running);
    let told = std::io::read_to_string(stderr).unwrap();
    assert!(told.contains("no webhook is sent"), "{told}");
    assert!(told.contains("too weak"), "{told}");
    assert!(!told.contains("\"weak\""), "{told}");
}
