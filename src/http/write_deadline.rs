//! A stream whose reader must keep reading.
//!
//! hyper bounds how slowly a client may send its headers, and nothing bounds how slowly it may take
//! an answer: a client that pipelines requests and never reads would hold its connection for ever.
//! Here a write that makes no progress for `limit` fails, which ends the connection.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::base::failpoint::failpoint;

pub(super) struct WriteDeadline<S> {
    inner: S,
    limit: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<dyn Sleep>>>,
}

impl<S> WriteDeadline<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self {
            inner,
            limit,
            waiting: None,
        }
    }

    pub(super) fn into_inner(self) -> S {
        self.inner
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<Result<T>>) -> Poll<Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let limit = self.limit;
        let waiting = self
            .waiting
            .get_or_insert_with(|| TokioTimer::new().sleep(limit));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(Error::from(ErrorKind::TimedOut))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        // The answer is with the operating system.
        failpoint!("fp-in4", if outcome.is_ready());
        self.judge(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        failpoint!("fp-in4", if outcome.is_ready());
        self.judge(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_reader_that_stops_ends_the_write_and_a_slow_one_does_not() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut ours = WriteDeadline::new(ours, Duration::from_millis(300));
        let write = async {
            let failed = ours.write_all(&[7; 100]).await.unwrap_err();
            assert_eq!(failed.kind(), ErrorKind::TimedOut);
        };
        let read = async {
            for _ in 0..5 {
                // Each pause is shorter than the limit, all together are longer.
                let pause = std::future::pending::<()>();
                let _ = tokio::time::timeout(Duration::from_millis(100), pause).await;
                theirs.read_exact(&mut [0; 8]).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = write => {}
            () = read => unreachable!(),
        }
    }
}
