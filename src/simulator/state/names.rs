//! Names and times in the shapes Google uses.
//!
//! The shapes matter: clients and their validators depend on the alphabet and the length, so a
//! simulator with friendlier names would hide their mistakes.

use data_encoding::BASE64URL_NOPAD;

use crate::base::clock::Timestamp;
use crate::base::ids::Ids;

const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// A text of `length` characters from `[a-z0-9]`.
pub(crate) fn segment(ids: &dyn Ids, length: usize) -> String {
    let mut bytes = vec![0; length];
    ids.fill(&mut bytes);
    bytes
        .iter()
        .filter_map(|byte| LOWER.get(usize::from(*byte) % LOWER.len()))
        .map(|byte| char::from(*byte))
        .collect()
}

/// `batches/` and 36 characters.
pub(crate) fn batch(ids: &dyn Ids) -> String {
    format!("batches/{}", segment(ids, 36))
}

/// `models/{model}/operations/` and 12 characters.
pub(crate) fn video(ids: &dyn Ids, model: &str) -> String {
    format!("models/{model}/operations/{}", segment(ids, 12))
}

/// `interactions/v1_` and 67 characters of base64url, as long as the real ones.
pub(crate) fn interaction(ids: &dyn Ids) -> String {
    let mut bytes = [0; 50];
    ids.fill(&mut bytes);
    format!("interactions/v1_{}", BASE64URL_NOPAD.encode(&bytes))
}

/// `msg_` and 27 characters.
pub(crate) fn webhook_id(ids: &dyn Ids) -> String {
    format!("msg_{}", segment(ids, 27))
}

/// The part of a name after its last slash.
pub(crate) fn last_segment(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

/// RFC 3339 with nine digits. The six that a millisecond clock does not know come from `salt`, so
/// the same moment of the same job always prints alike.
pub(crate) fn nanos(at: Timestamp, salt: &str) -> String {
    let mut mixed: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in salt.bytes() {
        mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let digits = mixed % 1_000_000;
    let text = at.to_string();
    format!("{}{digits:06}Z", text.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::RandomIds;

    #[test]
    fn names_have_the_lengths_and_alphabets_of_real_ones() {
        let ids = RandomIds::seeded(1);
        let lower = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let name = batch(&ids);
        let id = name.strip_prefix("batches/").unwrap();
        assert!(id.len() == 36 && lower(id), "{id}");
        let name = video(&ids, "veo-3.1-generate-preview");
        assert_eq!(last_segment(&name).len(), 12);
        let name = interaction(&ids);
        assert_eq!(last_segment(&name).len(), 70);
    }

    #[test]
    fn times_have_nine_digits_and_repeat() {
        let at = Timestamp::from_millis(1_769_083_200_015);
        let text = nanos(at, "batches/x");
        assert_eq!(text.len(), "2026-08-20T20:08:31.015405218Z".len(), "{text}");
        assert!(text.starts_with("2026-01-22T12:00:00.015"), "{text}");
        assert_eq!(text, nanos(at, "batches/x"));
    }
}
