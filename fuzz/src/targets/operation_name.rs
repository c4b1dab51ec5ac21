//! Operation and file names: what is one is a path and nothing but a path.

use hookledger::domain::operation::{Kind, OperationName, OperationRef};
use hookledger::gemini::FileName;
use url::Url;

pub(super) fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let name: Option<OperationName> = text.parse().ok();
    if let Some(name) = &name {
        assert_eq!(name.as_str(), text);
        is_a_path(name.as_str());
        let json = serde_json::to_string(name).unwrap();
        assert_eq!(
            serde_json::from_str::<OperationName>(&json).ok().as_ref(),
            Some(name)
        );
        let kind = match text.split('/').collect::<Vec<_>>().as_slice() {
            ["batches", _] => Kind::Batch,
            ["interactions", _] => Kind::Interaction,
            ["models", _, "operations", _] => Kind::Video,
            [.., "operations", _] => Kind::Operation,
            other => panic!("{other:?} is no name"),
        };
        assert_eq!(name.kind(), kind);
    }
    let json = serde_json::to_string(&text).unwrap();
    assert_eq!(serde_json::from_str::<OperationName>(&json).ok(), name);
    let hints = [Kind::Batch, Kind::Video, Kind::Interaction, Kind::Operation].map(Some);
    for hint in hints.into_iter().chain([None]) {
        let Some(named) = OperationRef::parse(&text, hint) else {
            assert!(name.is_none(), "a name that cannot be named");
            continue;
        };
        assert_eq!(named.raw(), text);
        assert_eq!(named.name(), name);
        for segment in named.ledger_segments() {
            assert!(named.raw().ends_with(segment) && !segment.contains('/'));
        }
        for candidate in named.candidates() {
            is_a_path(candidate.as_str());
            assert!(named.ledger_segments().contains(&candidate.segment()));
        }
    }
    if let Ok(file) = FileName::from_uri(&text) {
        is_a_path(file.as_str());
        assert_eq!(file.as_str().parse().as_ref(), Ok(&file));
        assert_eq!(FileName::from_uri(file.as_str()).as_ref(), Ok(&file));
    }
}

/// Appended to the API's base it is the path's end, letter for letter.
fn is_a_path(name: &str) {
    for never in ["..", "?", "#", "//", "%", "\\", ":", "@", " "] {
        let inside_a_segment = never == ".." && !name.split('/').any(|s| s == "..");
        assert!(
            inside_a_segment || !name.contains(never),
            "{never} in {name}"
        );
    }
    assert!(name.bytes().all(|b| b.is_ascii_graphic()) && name.len() <= 256);
    let url: Url = format!("https://api.example/v1beta/{name}")
        .parse()
        .unwrap();
    assert_eq!(url.path(), format!("/v1beta/{name}"));
    assert_eq!(url.host_str(), Some("api.example"));
    assert_eq!(
        (url.query(), url.fragment(), url.username()),
        (None, None, "")
    );
}
