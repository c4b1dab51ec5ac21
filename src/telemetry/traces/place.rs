//! Where a span stands, derived from what it is about.
//!
//! An operation is known by its last segment, because that is all a delivery may say; the documented
//! `batch_{id}` is the same operation as `{id}`. Two operations of one last segment share a trace, and
//! their spans say their whole names.
//!
//! Every id is the beginning of a SHA-256 over a label of this program, the kind of thing, and its
//! identity, each with its length in front, so that no two of them can be spelled alike. Sampling looks
//! at the trace id alone: all processes agree, for all of an operation's life.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use uuid::Uuid;

const DOMAIN: &str = "hookledger trace 1";

/// One trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace([u8; 16]);

/// One span's place: the trace and the span's own id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The trace it is in.
    pub(super) trace: [u8; 16],
    /// The span itself.
    pub(super) span: [u8; 8],
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent(true))
    }
}

fn derived<const N: usize>(kind: &str, parts: &[&[u8]]) -> [u8; N] {
    let mut hash = Sha256::new();
    for part in [DOMAIN.as_bytes(), kind.as_bytes()].iter().chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut id = [0; N];
    for (to, from) in id.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    id
}

impl Trace {
    /// The trace of an operation, however it is named.
    pub fn of_operation(name: &str) -> Self {
        let segment = name.rsplit('/').next().unwrap_or(name);
        let id = segment.strip_prefix("batch_").unwrap_or(segment);
        Self(derived("operation", &[id.as_bytes()]))
    }

    /// The trace of a delivery that names no operation.
    pub fn of_event(event: Uuid) -> Self {
        Self(derived("event", &[event.as_bytes()]))
    }

    /// The trace of an effect that is about no operation.
    pub fn of_effect(key: &str) -> Self {
        Self(derived("effect", &[key.as_bytes()]))
    }

    fn place(&self, kind: &str, parts: &[&[u8]]) -> Place {
        let whole: Vec<&[u8]> = std::iter::once(&self.0[..])
            .chain(parts.iter().copied())
            .collect();
        Place {
            trace: self.0,
            span: derived(kind, &whole),
        }
    }

    /// The operation's own span.
    pub fn root(&self) -> Place {
        self.place("root", &[])
    }

    /// The span of a captured delivery.
    pub fn delivery(&self, event: Uuid) -> Place {
        self.place("delivery", &[event.as_bytes()])
    }

    /// One question to the API, for a work item under a claim.
    pub fn fetch(&self, item: i64, epoch: i64, name: &str) -> Place {
        let (item, epoch) = (item.to_be_bytes(), epoch.to_be_bytes());
        self.place("fetch", &[&item, &epoch, name.as_bytes()])
    }

    /// The settlement of the operation of that name.
    pub fn settlement(&self, name: &str) -> Place {
        self.place("settlement", &[name.as_bytes()])
    }

    /// One attempt to make an effect happen.
    pub fn attempt(&self, key: &str, attempt: u32) -> Place {
        self.place("attempt", &[key.as_bytes(), &attempt.to_be_bytes()])
    }
}

impl Place {
    /// Reads a `traceparent` of W3C Trace Context: version 00, or a later one by its first four fields.
    pub fn parse(traceparent: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(traceparent).ok()?;
        let fields: Vec<&str> = text.splitn(5, '-').collect();
        let (version, trace, span, flags, more) = match *fields.as_slice() {
            [version, trace, span, flags] => (version, trace, span, flags, false),
            [version, trace, span, flags, _] => (version, trace, span, flags, true),
            _ => return None,
        };
        let [version] = bytes(version)?;
        bytes::<1>(flags)?;
        let (trace, span) = (bytes(trace)?, bytes(span)?);
        let legal = version != 0xff && (version != 0 || !more);
        (legal && trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span })
    }

    /// The header's text.
    pub(super) fn traceparent(&self, sampled: bool) -> String {
        let (trace, span) = (HEXLOWER.encode(&self.trace), HEXLOWER.encode(&self.span));
        format!("00-{trace}-{span}-{:02x}", u8::from(sampled))
    }

    /// Whether its trace is among `percent` of a hundred.
    pub(super) fn is_sampled(&self, percent: u8) -> bool {
        // As the specification asks: by the last bytes, the first may be a time.
        let [.., a, b, c, d] = self.trace;
        let share = u64::from(u32::from_be_bytes([a, b, c, d])) * 100;
        share < u64::from(percent) << 32
    }
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(hex.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_one_trace_by_each_of_its_names_and_nobody_elses() {
        let one = Trace::of_operation("batches/abc");
        assert_eq!(one, Trace::of_operation("abc"));
        assert_eq!(one, Trace::of_operation("batch_abc"));
        assert_ne!(one, Trace::of_operation("batches/abd"));
        assert_ne!(one, Trace::of_effect("abc"));
        assert_eq!(one.root().trace, one.settlement("batches/abc").trace);
        let spans = [
            one.root(),
            one.settlement("batches/abc"),
            one.settlement("interactions/abc"),
            one.attempt("k", 1),
            one.attempt("k", 2),
            one.delivery(Uuid::nil()),
            one.fetch(1, 2, "batches/abc"),
            one.fetch(1, 3, "batches/abc"),
        ];
        for (i, a) in spans.iter().enumerate() {
            assert!(spans.iter().skip(i + 1).all(|b| a.span != b.span), "{a:?}");
        }
    }

    /// Written down: another version of the program must find the same places.
    #[test]
    fn ids_stay_what_they_are() {
        let root = Trace::of_operation("batches/abc").root();
        assert_eq!(format!("{root:?}"), WRITTEN);
    }

    const WRITTEN: &str = "00-b84048460f0f9e99c657f6bd0f815d7b-48ca1c790efe6993-01";

    #[test]
    fn a_traceparent_is_read_strictly_and_written_alike() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let place = Place::parse(text.as_bytes()).unwrap();
        assert_eq!(place.traceparent(true), text);
        assert!(place.traceparent(false).ends_with("-00"));
        let later = format!("cc{}-more", &text[2..]);
        assert_eq!(Place::parse(later.as_bytes()), Some(place));
        for bad in [
            "",
            "00",
            &text[..54],
            &format!("{text}-more"),
            &format!("ff{}", &text[2..]),
            &text.to_uppercase(),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        ] {
            assert_eq!(Place::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Place::parse(&[0xff; 55]), None);
    }

    #[test]
    fn a_share_of_the_traces_is_sampled_and_a_trace_never_in_part() {
        let sampled = |percent: u8| {
            let names = (0..2_000).map(|n| Trace::of_operation(&format!("batches/{n}")));
            names
                .filter(|t| {
                    let (root, end) = (t.root(), t.settlement("x"));
                    assert_eq!(root.is_sampled(percent), end.is_sampled(percent));
                    root.is_sampled(percent)
                })
                .count()
        };
        assert_eq!((sampled(0), sampled(100)), (0, 2_000));
        assert!((400..600).contains(&sampled(25)), "{}", sampled(25));
    }
}
