//! Reading a body under a cap and a deadline.
//!
//! The cap holds while reading, so a body that lies about its length, or tells none, costs at most
//! the cap and one chunk. What a refusal leaves unread is the accept loop's business: it reads and
//! throws away a bounded rest, so that the client gets to see the answer.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;

use super::error::Problem;

/// Largest buffer reserved on the word of `Content-Length` alone, bytes.
const MAX_RESERVED: u64 = 64 * 1024;

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Over the cap, as declared or as read.
    #[error("the body is over the limit")]
    TooLarge,
    /// Not whole within the deadline.
    #[error("the body did not arrive in time")]
    TimedOut,
    /// The connection or the chunking broke.
    #[error("the body ended before it was whole")]
    Broken,
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::TOO_LARGE,
            BodyError::TimedOut => Self::BODY_TIMEOUT,
            BodyError::Broken => Self::BAD_REQUEST,
        }
    }
}

/// Refuses a body whose declared length is over `max` bytes, before any of it is read.
pub fn check_declared(headers: &HeaderMap, max: u64) -> Result<(), BodyError> {
    if declared(headers).is_some_and(|length| length > max) {
        Err(BodyError::TooLarge)
    } else {
        Ok(())
    }
}

/// The whole body, if it is at most `max` bytes and arrives within `deadline`.
pub async fn read_capped(
    headers: &HeaderMap,
    body: Body,
    max: u64,
    deadline: Duration,
) -> Result<Bytes, BodyError> {
    check_declared(headers, max)?;
    let reserved = declared(headers).unwrap_or(0).min(MAX_RESERVED);
    let read = collect(body, usize::try_from(reserved).unwrap_or(0), max);
    tokio::time::timeout(deadline, read)
        .await
        .unwrap_or(Err(BodyError::TimedOut))
}

async fn collect(mut body: Body, reserved: usize, max: u64) -> Result<Bytes, BodyError> {
    let mut whole = BytesMut::with_capacity(reserved);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        // Trailers are no part of the body and nothing here trusts them.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if (whole.len() + data.len()) as u64 > max {
            return Err(BodyError::TooLarge);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

fn declared(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(header::CONTENT_LENGTH)?.to_str().ok()?;
    // hyper has refused what is no number; one too large for u64 is over any limit.
    Some(text.trim().parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    const SECOND: Duration = Duration::from_secs(1);

    fn chunks(sizes: &[usize]) -> Body {
        let parts: Vec<Result<Bytes, std::io::Error>> =
            sizes.iter().map(|n| Ok(Bytes::from(vec![7; *n]))).collect();
        Body::from_stream(stream::iter(parts))
    }

    #[tokio::test]
    async fn the_cap_holds_while_reading() {
        let none = HeaderMap::new();
        let read = read_capped(&none, chunks(&[4, 4, 2]), 10, SECOND).await;
        assert_eq!(read.unwrap().len(), 10);
        let read = read_capped(&none, chunks(&[4, 4, 3]), 10, SECOND).await;
        assert_eq!(read, Err(BodyError::TooLarge));
        let endless = Body::from_stream(stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from_static(b"more"))
        }));
        let read = read_capped(&none, endless, 1 << 20, SECOND).await;
        assert_eq!(read, Err(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn a_declared_length_over_the_cap_is_refused_unread() {
        let unread = || Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        for length in ["11", "18446744073709551616"] {
            let headers = HeaderMap::from_iter([(
                header::CONTENT_LENGTH,
                http::HeaderValue::from_str(length).unwrap(),
            )]);
            let read = read_capped(&headers, unread(), 10, SECOND).await;
            assert_eq!(read, Err(BodyError::TooLarge));
        }
    }

    #[tokio::test]
    async fn the_deadline_is_for_the_whole_body() {
        let slow = Body::from_stream(stream::unfold((), |()| async {
            let pause = std::future::pending::<()>();
            let _ = tokio::time::timeout(Duration::from_millis(40), pause).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        }));
        let read = read_capped(&HeaderMap::new(), slow, 10, Duration::from_millis(150)).await;
        assert_eq!(read, Err(BodyError::TimedOut));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_no_body() {
        let parts = [
            Ok(Bytes::from_static(b"{")),
            Err(std::io::Error::other("reset")),
        ];
        let body = Body::from_stream(stream::iter(parts));
        let read = read_capped(&HeaderMap::new(), body, 10, SECOND).await;
        assert_eq!(read, Err(BodyError::Broken));
    }
}
