//! The log of requests the API has seen, for tests that ask what a client really sent.

use std::collections::VecDeque;

use serde::Serialize;

use crate::base::clock::Timestamp;

/// How many requests are remembered.
const REMEMBERED: usize = 10_000;

/// One request to the API. Never its key, its headers or its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenRequest {
    /// The method.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// When it came, in the model's time.
    pub at: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    last: VecDeque<SeenRequest>,
    count: u64,
}

impl RequestLog {
    pub(crate) fn note(&mut self, method: &str, path: &str, at: Timestamp) {
        self.count += 1;
        if self.last.len() >= REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(SeenRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            at,
        });
    }

    pub(crate) fn all(&self) -> Vec<SeenRequest> {
        self.last.iter().cloned().collect()
    }

    /// How many there were, the forgotten ones too.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
}
