//! JSON walked lazily: only what is asked for is parsed.
//!
//! A body may hold megabytes of inline responses of which only the number matters, so values stay
//! raw text until somebody looks. Skipping raw text is iterative in `serde_json`: depth costs no
//! stack. `null` counts as absent everywhere, as in protobuf's JSON.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::base::clock::Timestamp;

/// One JSON value, not yet parsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a>(&'a RawValue);

/// One JSON object whose values are not yet parsed. The last of equal keys counts.
#[derive(Debug)]
pub(super) struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Node<'a> {
    fn as_<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// The text, when this is a string.
    pub(super) fn text(self) -> Option<String> {
        self.as_()
    }

    /// The fields, when this is an object.
    pub(super) fn object(self) -> Option<Object<'a>> {
        self.as_().map(Object)
    }

    /// The elements, when this is an array.
    pub(super) fn items(self) -> Option<Vec<Node<'a>>> {
        let raw: Vec<&RawValue> = self.as_()?;
        Some(raw.into_iter().map(Node).collect())
    }

    /// The value as it was written.
    pub(super) fn raw(self) -> &'a str {
        self.0.get()
    }
}

impl<'a> Object<'a> {
    /// Reads a whole document that must be one object.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().map(Self)
    }

    /// The field, unless it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<Node<'a>> {
        let raw = self.0.get(key)?;
        (raw.get() != "null").then_some(Node(raw))
    }

    /// The field as an object.
    pub(super) fn object(&self, key: &str) -> Option<Object<'a>> {
        self.get(key)?.object()
    }

    /// The field as a string.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.get(key)?.text()
    }

    /// The field as an array.
    pub(super) fn items(&self, key: &str) -> Option<Vec<Node<'a>>> {
        self.get(key)?.items()
    }

    /// The field as a whole number: protobuf writes 64-bit ones as strings.
    pub(super) fn integer(&self, key: &str) -> Option<u64> {
        let node = self.get(key)?;
        node.as_()
            .or_else(|| node.text().and_then(|text| text.parse().ok()))
    }

    /// Whether the field is literally `true`.
    pub(super) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|node| node.raw() == "true")
    }

    /// The field as an RFC 3339 time.
    pub(super) fn time(&self, key: &str) -> Option<Timestamp> {
        self.text(key)?.parse().ok()
    }
}
