//! A true delivery with something wrong: in what it says, in how it proves it, in how it is framed.

use hookledger::base::clock::Timestamp;
use hookledger::base::secret::Secret;
use hookledger::verify::SigningSecret;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::http_door::{MAX_BODY, SHARED, SIGNING, TOKEN};

pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    /// Whether it is a whole request of HTTP, so that an answer is due.
    pub(crate) is_framed: bool,
}

/// Bodies in every shape that is documented or was seen, to begin with.
const BODIES: [&str; 9] = [
    r#"{"type":"batch.succeeded","version":"v1","timestamp":"2026-01-22T12:00:00Z","data":{"id":"batch_123456","output_file_uri":"gs://b/r.jsonl"}}"#,
    r#"{"type":"batch.failed","data":{"id":"batches/3a96ht58d9rd3fci7tg3","error_code":13,"error_message":"x"}}"#,
    r#"{"type":"video.generated","data":{"id":"models/veo-3.1/operations/9p5ug42emn2z","video_uri":"https://x/v1beta/files/a:download"}}"#,
    r#"{"type":"interaction.completed","data":{"id":"v1_ChdXS0l4YWZXTk9xbk0xZThQczhE"}}"#,
    r#"{"operation":{"name":"models/m/operations/o","done":true},"user_metadata":{"job":"42"}}"#,
    r#"{"opName":"batches/a","state":"SUCCEEDED","event_id":"e-1"}"#,
    r#"{"type":"interaction.requires_action","data":{"id":"v1_x","status":"requires_action"}}"#,
    r#"{"data":{"id":"batches/b","state":"BATCH_STATE_RUNNING"}}"#,
    r#"{"type":"webhook.ping"}"#,
];

/// What JSON and names trip over.
const PIECES: [&str; 20] = [
    "null",
    "true",
    "-0",
    "1e400",
    "9999999999999999999999",
    "[]",
    "{}",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "../",
    "%2e%2e/",
    "?key=",
    "#",
    "\u{feff}",
    "\u{202e}",
    "\u{0}",
    ",",
    "}",
    "\"",
];

/// Payload `n` of `seed`, as if sent at `now`.
pub(crate) fn payload(seed: u64, n: u64, now: Timestamp) -> Payload {
    let rng = &mut StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(n));
    let mut body = pick(rng, &BODIES).as_bytes().to_vec();
    if rng.random_ratio(3, 4) {
        damage_text(rng, &mut body);
    }
    let id = if rng.random_ratio(1, 5) {
        "msg_same".to_owned()
    } else {
        format!("msg_{n}")
    };
    let mut request = Request {
        method: "POST".to_owned(),
        path: format!("/hooks/gemini/{TOKEN}"),
        version: "HTTP/1.1".to_owned(),
        headers: proofs(rng, &id, now, &body),
        body,
    };
    let mut is_framed = true;
    match rng.random_range(0..10) {
        0..=3 => {}
        4 | 5 => request.damage_headers(rng),
        6 => request.damage_path(rng),
        7 => is_framed = request.damage_framing(rng),
        8 => {
            // Signed or not, other bytes arrive.
            damage_text(rng, &mut request.body);
        }
        _ => {
            let mut bytes = request.bytes();
            damage_bytes(rng, &mut bytes);
            return Payload {
                bytes,
                is_framed: false,
            };
        }
    }
    Payload {
        bytes: request.bytes(),
        is_framed,
    }
}

fn pick<'s>(rng: &mut StdRng, from: &[&'s str]) -> &'s str {
    from.choose(rng).copied().unwrap_or_default()
}

fn proofs(rng: &mut StdRng, id: &str, now: Timestamp, body: &[u8]) -> Vec<(String, Vec<u8>)> {
    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let mut headers = vec![header("Host", "x")];
    let kind = rng.random_range(0..4);
    if kind != 0 {
        let key = SigningSecret::parse(&Secret::new(SIGNING)).unwrap();
        headers.push(header("Webhook-Id", id));
        headers.push(header("Webhook-Timestamp", &now.as_seconds().to_string()));
        headers.push(header("Webhook-Signature", &key.sign(id, now, body)));
    }
    if kind < 2 {
        headers.push(header("X-Hook-Secret", SHARED));
    }
    headers
}

struct Request {
    method: String,
    path: String,
    version: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Request {
    fn damage_headers(&mut self, rng: &mut StdRng) {
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(1..self.headers.len().max(2));
            let turn = rng.random_range(0..6);
            let Some((name, value)) = self.headers.get_mut(at) else {
                continue;
            };
            match turn {
                0 => drop(self.headers.remove(at)),
                1 => {
                    let copy = (name.to_ascii_lowercase(), value.clone());
                    self.headers.push(copy);
                }
                2 => damage_header_value(rng, value),
                3 => *value = vec![b'a'; rng.random_range(0..20_000)],
                4 => {
                    let name = pick(
                        rng,
                        &["Forwarded", "X-Forwarded-For", "Cookie", "Expect", "Range"],
                    );
                    let value = pick(
                        rng,
                        &["", "100-continue", "::1, 8.8.8.8", "bytes=0-", "\u{7f}"],
                    );
                    let value = value.replace('\u{7f}', "~").into_bytes();
                    self.headers.push((name.to_owned(), value));
                }
                _ => {
                    let many = rng.random_range(1..120);
                    let more = (0..many).map(|i| (format!("X-{i}"), b"y".to_vec()));
                    self.headers.extend(more);
                }
            }
        }
    }

    fn damage_path(&mut self, rng: &mut StdRng) {
        let path = match rng.random_range(0..6) {
            0 => format!(
                "/hooks/{}/{TOKEN}",
                pick(rng, &["", "stripe", "%00", "gemini%2f", "ä"])
            ),
            1 => {
                let mut token = TOKEN.as_bytes().to_vec();
                token.truncate(rng.random_range(0..token.len()));
                format!("/hooks/gemini/{}", String::from_utf8_lossy(&token))
            }
            2 => format!("/hooks/gemini/{}", "%61".repeat(rng.random_range(0..3000))),
            3 => format!(
                "//hooks/../hooks/gemini/{TOKEN}?{}",
                pick(rng, &PIECES).replace(['\0', '"'], "")
            ),
            4 => {
                let id = uuid::Uuid::from_u128(rng.random());
                format!("/hooks/gemini/{id}.{}", "A".repeat(43))
            }
            _ => {
                let methods = ["GET", "PUT", "OPTIONS", "HEAD", "TRACE", "CONNECT", "X"];
                pick(rng, &methods).clone_into(&mut self.method);
                return;
            }
        };
        self.path = path.replace(['\u{feff}', '\u{202e}', 'ä'], "%C3");
    }

    /// Whether it is still a whole request.
    fn damage_framing(&mut self, rng: &mut StdRng) -> bool {
        let length = self.body.len();
        let (name, value) = match rng.random_range(0..8) {
            0 => (
                "Content-Length",
                length.saturating_sub(rng.random_range(1..9)).to_string(),
            ),
            1 => (
                "Content-Length",
                (length + rng.random_range(1..9)).to_string(),
            ),
            2 => (
                "Content-Length",
                pick(
                    rng,
                    &["-1", "+5", "0x5", "18446744073709551616", "", "5, 5"],
                )
                .to_owned(),
            ),
            3 => (
                "Transfer-Encoding",
                pick(rng, &["gzip", "chunked, gzip", "xchunked"]).to_owned(),
            ),
            4 => {
                self.body = chunked(rng, &self.body);
                ("Transfer-Encoding", "chunked".to_owned())
            }
            5 => {
                self.body = chunked(rng, &self.body);
                damage_bytes(rng, &mut self.body);
                ("Transfer-Encoding", "chunked".to_owned())
            }
            6 => {
                self.body = vec![b' '; rng.random_range(MAX_BODY - 2..MAX_BODY * 3)];
                return true;
            }
            _ => {
                pick(
                    rng,
                    &["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "http/1.1"],
                )
                .clone_into(&mut self.version);
                return false;
            }
        };
        self.headers.push((name.to_owned(), value.into_bytes()));
        false
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{} {} {}\r\n", self.method, self.path, self.version).into_bytes();
        let mut has_framing = false;
        for (name, value) in &self.headers {
            has_framing |= name == "Content-Length" || name == "Transfer-Encoding";
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        if !has_framing {
            out.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        out.extend_from_slice(b"Connection: close\r\n\r\n");
        out.extend_from_slice(&self.body);
        out
    }
}

fn damage_header_value(rng: &mut StdRng, value: &mut Vec<u8>) {
    let byte = || b'!'..=b'~';
    if value.is_empty() || rng.random_ratio(1, 3) {
        value.push(rng.random_range(byte()));
    } else {
        let at = rng.random_range(0..value.len());
        if let Some(there) = value.get_mut(at) {
            *there = rng.random_range(byte());
        }
    }
}

fn chunked(rng: &mut StdRng, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in body.chunks(rng.random_range(1..200)) {
        out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// Damage that a reader of JSON notices: pieces put in, spans cut out, doubled or nested.
fn damage_text(rng: &mut StdRng, text: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..=text.len());
        let end = rng.random_range(at..=text.len()).min(at + 40);
        match rng.random_range(0..7) {
            0 => drop(text.splice(at..at, pick(rng, &PIECES).bytes())),
            1 => drop(text.splice(at..end, pick(rng, &PIECES).bytes())),
            2 => drop(text.drain(at..end)),
            3 => {
                let span: Vec<u8> = text.get(at..end).unwrap_or_default().to_vec();
                drop(text.splice(at..at, span));
            }
            4 => {
                let depth = rng.random_range(1..1500);
                let inner = std::mem::take(text);
                let (open, close) = if rng.random() {
                    (&b"["[..], &b"]"[..])
                } else {
                    (&b"{\"data\":"[..], &b"}"[..])
                };
                text.extend(open.repeat(depth));
                text.extend(inner);
                text.extend(close.repeat(depth));
                text.truncate(MAX_BODY);
            }
            5 => {
                let long = "a".repeat(rng.random_range(1..3000));
                drop(text.splice(at..at, long.into_bytes()));
                text.truncate(MAX_BODY);
            }
            _ => damage_bytes(rng, text),
        }
    }
}

fn damage_bytes(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..6) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..4) {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, rng.random()),
            2 => bytes.truncate(at.max(1)),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.random();
                }
            }
        }
    }
}
