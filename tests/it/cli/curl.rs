//! `events curl`: what it prints is really given to `/bin/sh`, against a listener that keeps every
//! byte and against the service itself.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use hookledger::base::clock::{Clock, SystemClock, Timestamp};
use hookledger::base::ids::{Ids, RandomIds};
use hookledger::base::secret::Secret;
use hookledger::base::shutdown::Shutdown;
use hookledger::store::{NewDelivery, OpenOptions, Store};
use hookledger::verify::SigningSecret;
use uuid::Uuid;

use super::running::Running;
use super::{CANARIES, Place, Ran};

/// No text: NUL, quotes, line breaks, bytes that are no UTF-8, and everything a shell knows.
const BODY: &[u8] = b"{\"a\":'\0\r\n$(touch pwned) `touch pwned` \\ %s \xff\xfe\n\n";
const HOSTILE: &[(&str, &[u8])] = &[
    ("host", b"old.example"),
    ("content-type", b"application/json; charset=utf-8"),
    ("x-forwarded-for", b"192.0.2.1"),
    (
        "x-odd",
        b"it's \"quoted\"  $(touch pwned) `touch pwned` ${HOME} !! \\ ; & | # *",
    ),
    ("x'$(touch${IFS}pwned)", b"name"),
    ("x-latin", b"\xfcber 100%s \\n"),
    ("x-at", b"@/etc/passwd"),
    ("x-twice", b"one"),
    ("x-twice", b"two"),
    ("x-none", b""),
    ("webhook-id", b"msg_1"),
    ("webhook-timestamp", b"1769083200"),
    ("webhook-signature", b"v1,old="),
];

/// Puts a delivery on disk as the door would have.
async fn capture(place: &Place, headers: &[(&str, &[u8])], body: &[u8]) -> Uuid {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ids: Arc<dyn Ids> = Arc::new(RandomIds::from_system());
    let group = Shutdown::new(clock.clone());
    let options = OpenOptions {
        path: place.path().join("webhook.db"),
        create: true,
        readers: 1,
        max_waiting: 1 << 20,
        check_at_once: hookledger::store::CHECK_AT_ONCE,
    };
    let store = Store::open(&options, clock.clone(), ids.clone(), &group)
        .await
        .unwrap();
    let now = clock.now();
    let received = store
        .deliver(NewDelivery {
            id: ids.uuid(now),
            source: "gemini".to_owned(),
            received_at: now,
            event_type: None,
            operation: None,
            dedupe_key: None,
            dedupe_until: Timestamp::from_millis(0),
            ignored_because: Some("a test"),
            webhook_id: None,
            proof: "shared_header".to_owned(),
            reservation: None,
            replay_of: None,
            user_metadata: None,
            headers: headers
                .iter()
                .map(|(n, v)| ((*n).to_owned(), Bytes::copy_from_slice(v)))
                .collect(),
            body: Bytes::copy_from_slice(body),
        })
        .await
        .unwrap();
    store.close().await;
    assert!(group.drain(Duration::from_secs(10)).await);
    received.event_id
}

/// What a listener was sent.
struct Request {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Request {
    fn line(&self) -> String {
        let end = self.head.iter().position(|b| *b == b'\r').unwrap();
        String::from_utf8(self.head[..end].to_vec()).unwrap()
    }

    fn all(&self, name: &str) -> Vec<&[u8]> {
        let lines = self.head.split(|b| *b == b'\n').skip(1);
        lines
            .filter_map(|line| {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let colon = line.iter().position(|b| *b == b':')?;
                let (found, value) = line.split_at(colon);
                found
                    .eq_ignore_ascii_case(name.as_bytes())
                    .then(|| value[1..].trim_ascii())
            })
            .collect()
    }

    fn one(&self, name: &str) -> &[u8] {
        match self.all(name)[..] {
            [only] => only,
            ref all => panic!("{name}: {} of them", all.len()),
        }
    }
}

/// Takes one request.
fn record() -> (String, JoinHandle<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let taken = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let mut request = Request {
            head,
            body: Vec::new(),
        };
        let length = std::str::from_utf8(request.one("content-length")).unwrap();
        request.body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut request.body).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        request
    });
    (base, taken)
}

/// Gives `script` to the shell, as a paste would.
fn shell(place: &Place, script: &str) -> Ran {
    for tool in ["curl", "base64"] {
        let there = place.command(tool).arg("--version").output();
        assert!(there.is_ok_and(|o| o.status.success()), "{tool} is needed");
    }
    Ran::of(
        &place
            .command("/bin/sh")
            .args(["-c", script])
            .output()
            .unwrap(),
    )
}

fn curl(place: &Place, event: Uuid, more: &[&str]) -> String {
    let id = event.to_string();
    let ran = place.run(&[&["events", "curl", &id], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.is_ascii(), "{}", ran.stdout);
    ran.stdout
}

fn check(request: &Request, pwned: &Path) {
    assert!(!pwned.exists(), "a header ran");
    assert_eq!(
        request.line(),
        format!("POST /hooks/gemini/{} HTTP/1.1", CANARIES[0].1)
    );
    assert_eq!(request.body, BODY);
    assert_eq!(request.one("x-hook-secret"), CANARIES[1].1.as_bytes());
    for (name, value) in HOSTILE {
        match *name {
            "host" => assert_ne!(request.one("host"), *value),
            "x-forwarded-for" => assert_eq!(request.all(name).len(), 0),
            "x-twice" => assert_eq!(request.all(name), [b"one", b"two"]),
            name if name.starts_with("webhook-") => {}
            name => assert_eq!(request.one(name), *value, "{name}"),
        }
    }
    for added in ["accept", "user-agent", "expect", "accept-encoding"] {
        assert_eq!(request.all(added).len(), 0, "{added}");
    }
}

#[tokio::test]
async fn what_is_printed_replays_byte_for_byte() {
    let place = Place::new();
    let event = capture(&place, HOSTILE, BODY).await;
    let pwned = place.path().join("pwned");

    let (base, taken) = record();
    let ran = shell(&place, &curl(&place, event, &["--url", &base]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let request = taken.join().unwrap();
    check(&request, &pwned);
    assert_eq!(request.one("webhook-id"), b"msg_1");
    assert_eq!(request.one("webhook-signature"), b"v1,old=");

    let (base, taken) = record();
    let ran = shell(&place, &curl(&place, event, &["--url", &base, "--fresh"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let request = taken.join().unwrap();
    check(&request, &pwned);
    assert_ne!(request.one("webhook-id"), b"msg_1");
    let text = |name| std::str::from_utf8(request.one(name)).unwrap();
    let seconds: i64 = text("webhook-timestamp").parse().unwrap();
    let at = Timestamp::from_millis(seconds * 1000);
    assert!(SystemClock::new().now().since(at) < Duration::from_secs(60));
    let key = SigningSecret::parse(&Secret::new(CANARIES[3].1)).unwrap();
    assert_eq!(
        text("webhook-signature"),
        key.sign(text("webhook-id"), at, BODY)
    );
}

#[tokio::test]
async fn a_script_and_its_body_run_from_anywhere() {
    let place = Place::new();
    let event = capture(&place, HOSTILE, BODY).await;
    let (base, taken) = record();
    let out = "a dir's \"name\"";
    let printed = curl(&place, event, &["--url", &base, "--out", out]);
    let [body, script] = printed.lines().collect::<Vec<_>>()[..] else {
        panic!("{printed}");
    };
    assert_eq!(std::fs::read(place.path().join(body)).unwrap(), BODY);
    let ran = Ran::of(
        &place
            .command(place.path().join(script).to_str().unwrap())
            .current_dir("/")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check(&taken.join().unwrap(), &place.path().join("pwned"));
}

#[tokio::test]
async fn without_its_variables_the_command_stops_before_it_sends() {
    let mut place = Place::new();
    let event = capture(&place, &[], b"{}").await;
    let printed = curl(&place, event, &["--url", "http://127.0.0.1:9"]);
    for end in ["/", "/hooks", "/hooks/"] {
        let same = curl(
            &place,
            event,
            &["--url", &format!("http://127.0.0.1:9{end}")],
        );
        assert_eq!(same, printed, "{end}");
    }
    place
        .environment
        .retain(|(name, _)| name != "HOOK_SHARED_SECRET");
    let ran = shell(&place, &printed);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("HOOK_SHARED_SECRET"), "{}", ran.stderr);
    // Without a signing secret the copy is unsigned and says so.
    place
        .environment
        .retain(|(name, _)| name != "GEMINI_WEBHOOK_SECRETS");
    let printed = curl(&place, event, &["--fresh"]);
    assert!(printed.contains("unsigned"), "{printed}");
    assert!(!printed.contains("webhook-signature"), "{printed}");
    let base = format!("http://{}/hooks", place.get("HOOKLEDGER_LISTEN"));
    assert!(printed.contains(&base), "{printed}");
    // A source that knows only signatures is not sent the shared secret.
    place.set(CANARIES[3].0, CANARIES[3].1);
    place.set("HOOKLEDGER__SOURCES__GEMINI__SHARED_HEADER", "false");
    let printed = curl(&place, event, &["--fresh"]);
    assert!(!printed.contains("HOOK_SHARED_SECRET"), "{printed}");
}

#[test]
fn the_service_takes_a_fresh_copy_and_folds_an_old_one() {
    let mut place = Place::new();
    place.set("GEMINI_BASE_URL", "http://127.0.0.1:9");
    let _service = Running::serve(&place);
    let send = format!(
        "curl -sS -X POST -H 'webhook-id: evt_1' -H \"X-Hook-Secret: $HOOK_SHARED_SECRET\" \
         -H 'x-odd: it'\\''s \"q\" $(touch pwned)' --data-binary '{{\"name\":\"batches/a\"}}' \
         http://{}/hooks/gemini/$HOOK_PATH_TOKEN",
        place.get("HOOKLEDGER_LISTEN")
    );
    assert_eq!(shell(&place, &send).json()["status"], "accepted");

    let list = place.json(&["events", "list", "--operation", "batches/a"]);
    let event: Uuid = list["events"][0]["id"].as_str().unwrap().parse().unwrap();
    let shown = place.json(&["events", "show", &event.to_string()]);
    assert_eq!(shown["body"], "{\"name\":\"batches/a\"}");
    let run = |more: &[&str]| shell(&place, &curl(&place, event, more)).json()["status"].clone();
    assert_eq!(run(&[]), "duplicate");
    assert_eq!(run(&["--fresh"]), "accepted");
    assert!(!place.path().join("pwned").exists());
    let list = place.json(&["events", "list"]);
    assert_eq!(list["events"].as_array().unwrap().len(), 2);
    // Accepted also means rightly signed: a proof that is there and wrong is refused.
    let printed = curl(&place, event, &["--fresh"]);
    assert!(printed.contains("webhook-signature: v1,"), "{printed}");
    let spoilt = printed.replace("webhook-signature: v1,", "webhook-signature: v1,A");
    assert_eq!(shell(&place, &spoilt).json()["status"], 401);
}
