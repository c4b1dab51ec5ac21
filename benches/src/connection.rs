//! One kept-alive HTTP/1.1 connection, read by hand: what sends must cost less than what answers.
//!
//! It understands what the contestants answer (a status line, `content-length` or chunks, `connection:
//! close`) and nothing else.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Larger answers are nobody's here.
const MAX_ANSWER: usize = 64 * 1024;

/// A connection that is opened when it is first needed, and anew when the other side closed it.
pub(crate) struct Connection {
    to: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    status: u16,
    closes: bool,
}

impl Connection {
    pub(crate) fn new(to: SocketAddr) -> Self {
        Self {
            to,
            stream: None,
            buffer: Vec::with_capacity(1024),
        }
    }

    /// Sends a request and answers its status. A connection that fails is not used again.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            let stream = TcpStream::connect(self.to).await.context("connecting")?;
            stream.set_nodelay(true)?;
            stream
        };
        stream.write_all(request).await.context("sending")?;
        self.buffer.clear();
        loop {
            if let Some(answer) = read(&self.buffer)? {
                if !answer.closes {
                    self.stream = Some(stream);
                }
                return Ok(answer.status);
            }
            if stream.read_buf(&mut self.buffer).await.context("reading")? == 0 {
                bail!("closed without an answer");
            }
        }
    }
}

/// The answer, once it is whole.
fn read(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        if bytes.len() > MAX_ANSWER {
            bail!("an answer without an end of its head");
        }
        return Ok(None);
    };
    let (head, body) = bytes.split_at(end + 4);
    let head = std::str::from_utf8(head).context("an answer's head")?;
    let status = head
        .get(9..12)
        .and_then(|code| code.parse().ok())
        .context("an answer's status")?;
    let (mut length, mut chunked, mut closes) = (0, false, false);
    for line in head.split("\r\n").skip(1) {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().context("an answer's length")?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            closes = value.eq_ignore_ascii_case("close");
        }
    }
    let whole = if chunked {
        body.ends_with(b"0\r\n\r\n")
    } else {
        body.len() >= length
    };
    Ok(whole.then_some(Answer { status, closes }))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|w| w == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_whole_and_not_before() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]).unwrap(), None, "{end}");
        }
        let answer = read(whole).unwrap().unwrap();
        assert_eq!((answer.status, answer.closes), (200, true));
        let chunks = b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        let answer = read(chunks).unwrap().unwrap();
        assert_eq!((answer.status, answer.closes), (503, false));
        assert_eq!(read(&chunks[..chunks.len() - 1]).unwrap(), None);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(read(b"hello\r\n\r\n").is_err());
        assert!(read(&vec![b'x'; MAX_ANSWER + 1]).is_err());
    }
}
