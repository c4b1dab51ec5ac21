//! Names of folders and files, from names that came from outside.
//!
//! An operation name's segments hold only letters, digits and `._~-`, and none is `.` or `..`, so a
//! name with `/` made `_` is one harmless path component. Two things are left: it may be longer
//! than a file system allows, and `_` is legal in a name, so two names could share a folder. Where
//! either can happen, the name's hash is appended.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::domain::operation::OperationName;

/// Longest folder name made without shortening, in bytes; file systems take 255.
const MAX_PLAIN: usize = 200;

/// The folder of an operation: the same for ever, and no other operation's.
pub(super) fn folder(name: &OperationName) -> String {
    let text = name.as_str();
    let two_segments = text.matches('/').count() == 1;
    let could_pass_for_two = text.starts_with("batches/") || text.starts_with("interactions/");
    let unique = two_segments || !(could_pass_for_two || text.contains('_'));
    let plain = text.replace('/', "_");
    if unique && plain.len() <= MAX_PLAIN {
        return plain;
    }
    let hash = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
    // Names are ASCII, so characters are bytes.
    let head: String = plain.chars().take(MAX_PLAIN).collect();
    let tail: String = hash.chars().take(16).collect();
    format!("{head}~{tail}")
}

/// The usual extension for a declared media type; `bin` for those we do not know.
pub(super) fn extension(media_type: Option<&str>) -> &'static str {
    let essence = media_type.unwrap_or_default().split(';').next();
    match essence
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
        .as_str()
    {
        "video/mp4" => "mp4",
        "video/webm" => "webm",
        "video/quicktime" => "mov",
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/webp" => "webp",
        "image/gif" => "gif",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "audio/flac" => "flac",
        "application/json" => "json",
        "text/plain" => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of(name: &str) -> String {
        folder(&name.parse().unwrap())
    }

    #[test]
    fn common_names_stay_readable() {
        assert_eq!(of("batches/3a96ht"), "batches_3a96ht");
        assert_eq!(of("interactions/v1_Chd"), "interactions_v1_Chd");
        assert_eq!(
            of("models/veo-3.1-generate-preview/operations/9p5"),
            "models_veo-3.1-generate-preview_operations_9p5"
        );
    }

    #[test]
    fn no_two_names_share_a_folder_and_none_leaves_its_own() {
        let long = "a".repeat(120);
        let names = [
            "batches/x_operations_y".to_owned(),
            "batches/x/operations/y".to_owned(),
            "a_b/operations/c".to_owned(),
            "a/b/operations/c".to_owned(),
            "a/b_operations/operations/c".to_owned(),
            format!("{long}/{long}/operations/a"),
            format!("{long}/{long}/operations/b"),
            "..a/operations/...".to_owned(),
        ];
        let folders: BTreeSet<String> = names.iter().map(|name| of(name)).collect();
        assert_eq!(folders.len(), names.len(), "{folders:?}");
        for folder in folders {
            assert!(
                folder.len() <= 255 && !folder.contains('/') && folder != "..",
                "{folder}"
            );
        }
    }

    #[test]
    fn media_types_are_read_without_their_parameters() {
        assert_eq!(extension(Some("Video/MP4; codecs=\"avc1\"")), "mp4");
        assert_eq!(extension(Some("../../etc")), "bin");
        assert_eq!(extension(None), "bin");
    }
}
