//! A request body that remembers whether it was read to its end.
//!
//! An answer given before its request was read whole ends the connection. The answer must say so, or
//! a client that pools connections sends its next request into a closed one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Whether a [`Watched`] body still has something to give.
#[derive(Debug, Clone)]
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    pub(super) fn is_unread(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct Watched<B> {
    inner: B,
    unread: Unread,
}

impl<B: Body> Watched<B> {
    pub(super) fn new(inner: B) -> (Self, Unread) {
        let unread = Unread(Arc::new(AtomicBool::new(!inner.is_end_stream())));
        let watched = Self {
            inner,
            unread: unread.clone(),
        };
        (watched, unread)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Watched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) || self.inner.is_end_stream() {
            self.unread.0.store(false, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
