//! One stream per page that says "something has changed", so that the page fetches itself again.
//!
//! A stream sends no data: whatever is shown is asked for by the page's own address, with the checks
//! of any other request. Ticks follow the store's commits, at most one a second, and one every ten
//! seconds even so, because ages and plots move on. Streams are bounded in number, for all, for
//! one token and for one session (a browser opens six connections to one host, and the pages need some of them).
//!
//! Races: a stream ends when a stop begins, so no stop waits for one; when its session ends, at the
//! next tick. Its place is given back when the answer's body is dropped, however that happens.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Response, StatusCode, header};

use super::super::admin::TokenDigest;
use super::answer::Refused;
use super::seat::Seat;
use super::session::Key;
use super::{Desk, SAMPLE_EVERY};

/// Where the stream is.
pub(super) const LIVE: &str = "/live";

/// Most streams at once, and of one session.
const MOST: usize = 64;
const MOST_OF_ONE: usize = 4;
/// Most of all sessions of one token: whoever may only look leaves room for who may act.
const MOST_OF_TOKEN: usize = 32;
/// Least time between two ticks.
const PAUSE: Duration = Duration::from_secs(1);

const TICK: &[u8] = b"event: changed\ndata:\n\n";

/// The streams that are open.
#[derive(Debug, Default, Clone)]
pub(super) struct Streams(Arc<Mutex<HashMap<Key, (TokenDigest, usize)>>>);

/// One open stream; uncounted when dropped.
#[derive(Debug)]
struct Place {
    streams: Streams,
    key: Key,
}

impl Streams {
    fn take(&self, key: Key, token: TokenDigest) -> Option<Place> {
        let mut open = self.lock();
        let all: usize = open.values().map(|(_, n)| n).sum();
        let of_token = open.values().filter(|(of, _)| *of == token);
        let of_token: usize = of_token.map(|(_, n)| n).sum();
        let own = open.get(&key).map_or(0, |(_, n)| *n);
        if all >= MOST || of_token >= MOST_OF_TOKEN || own >= MOST_OF_ONE {
            return None;
        }
        open.insert(key, (token, own + 1));
        let streams = self.clone();
        Some(Place { streams, key })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (TokenDigest, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some((_, own)) = open.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.key);
            }
        }
    }
}

pub(super) async fn stream(
    State(desk): State<Desk>,
    seat: Seat,
) -> Result<Response<Body>, Refused> {
    let key = *seat.key();
    let Some(place) = desk.web.streams.take(key, seat.token()) else {
        return Err(Refused::page(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many pages refresh themselves",
            "Close some of them.",
        ));
    };
    let news = desk.admin.store.news();
    let state = (desk, news, place, true);
    let ticks = stream::unfold(state, async move |(desk, mut news, place, first)| {
        let web = &desk.web;
        if first {
            // The browser learns at once that the stream is there.
            let hello = Bytes::from_static(b": hookledger\nretry: 3000\n\n");
            return Some((Ok::<_, Infallible>(hello), (desk, news, place, false)));
        }
        let stop = web.stop.clone();
        let changed = async {
            tokio::select! {
                changed = news.changed() => if changed.is_err() { std::future::pending().await },
                () = web.clock.sleep(SAMPLE_EVERY) => {}
            }
            // What comes in the meantime is told by the same tick.
            web.clock.sleep(PAUSE).await;
        };
        tokio::select! {
            () = stop.stopping() => return None,
            () = changed => {}
        }
        news.mark_unchanged();
        let signed_in = web.sessions.lives(&place.key);
        signed_in.then(|| (Ok(Bytes::from_static(TICK)), (desk, news, place, false)))
    });
    let mut response = Response::new(Body::from_stream(ticks));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    // Some proxies hold answers back until they are whole.
    let unheld = HeaderValue::from_static("no");
    response.headers_mut().insert("x-accel-buffering", unheld);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let streams = Streams::default();
        let (looks, acts) = ([0; 32], [9; 32]);
        let mine: Vec<_> = (0..MOST_OF_ONE)
            .map(|_| streams.take([1; 32], acts))
            .collect();
        assert!(mine.iter().all(Option::is_some));
        assert!(streams.take([1; 32], acts).is_none());
        let others: Vec<_> = (2..).map_while(|n| streams.take([n; 32], looks)).collect();
        assert_eq!(others.len(), MOST_OF_TOKEN);
        let more: Vec<_> = (99..).map_while(|n| streams.take([n; 32], acts)).collect();
        assert_eq!(mine.len() + more.len(), MOST - MOST_OF_TOKEN);
        assert!(streams.take([98; 32], [7; 32]).is_none(), "all are taken");
        drop(mine);
        assert!(streams.take([1; 32], acts).is_some());
        drop((others, more));
        assert!(streams.lock().is_empty());
    }
}
