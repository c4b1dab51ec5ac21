//! T20: a thousand sockets that say nothing, half a head, half a body, or never read.

use std::time::Duration;

use futures_util::future::join_all;
use hookledger::base::clock::{Clock as _, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::load;
use crate::row::{Tier, Verdict};
use crate::support::stand::{PATH_TOKEN, SHARED, Stand};

const HEADER: Duration = Duration::from_secs(2);
const BODY: Duration = Duration::from_secs(3);
/// Between two sockets.
const APART: Duration = Duration::from_millis(1);
/// What a loaded machine may add.
const SLACK: Duration = Duration::from_secs(10);
/// A true delivery needs a place beside them.
const SOCKETS: usize = 960;
const GROWTH: u64 = 64 << 20;

/// Every socket is closed by its deadline, true deliveries go on, and memory stays.
pub(super) async fn run(tier: Tier) -> Verdict {
    let stand = Stand::with(&[
        ("server.header_timeout", "'2s'"),
        ("server.body_timeout", "'3s'"),
        ("log.filter", "'warn'"),
    ])
    .await;
    let before = load::peak_memory(&stand);
    let rounds = tier.of(4, 120);
    let all = async {
        for _ in 0..rounds {
            join_all((0..SOCKETS).map(|n| stall(&stand, n))).await;
        }
    };
    let ((), accepted) = load::beside(&stand, "127.0.0.3", 100, all).await;
    let grown = load::peak_memory(&stand) - before;
    assert!(grown < GROWTH, "memory grew by {grown} bytes");
    Verdict::Passed(format!(
        "{} stalled sockets closed in time, {accepted} true deliveries accepted meanwhile, memory +{} MiB",
        SOCKETS * rounds,
        grown >> 20
    ))
}

/// Opens one, stalls in its way, and waits to be shown out.
async fn stall(stand: &Stand, n: usize) {
    let clock = SystemClock::new();
    // Slower than the program accepts: a socket left over in the kernel's queue is not its to close.
    clock.sleep(APART * u32::try_from(n).unwrap()).await;
    let mut stream = connect(stand).await;
    let since = clock.monotonic();
    let (said, deadline) = match n % 4 {
        0 => (String::new(), HEADER),
        1 => (
            "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ".to_owned(),
            HEADER,
        ),
        2 => {
            // Who has no proof is refused at once. Who has one holds a permit until the deadline, and
            // these are half of the permits.
            let secret = if n % 16 == 2 { SHARED } else { "no-secret" };
            let head = format!(
                "POST /hooks/gemini/{PATH_TOKEN} HTTP/1.1\r\nHost: x\r\nX-Hook-Secret: {secret}\r\n\
                 Content-Length: 1000\r\n\r\nhalf"
            );
            (head, BODY)
        }
        // Asks without end and reads nothing until it is over.
        _ => ("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20), HEADER),
    };
    // It may be closed while it is still speaking.
    drop(stream.write_all(said.as_bytes()).await);
    if n % 4 == 3 {
        clock.sleep(HEADER).await;
    }
    let mut rest = Vec::new();
    let end = tokio::time::timeout(deadline + SLACK, stream.read_to_end(&mut rest)).await;
    assert!(
        end.is_ok(),
        "socket {n} was still open after {:?}",
        clock.monotonic().saturating_sub(since)
    );
}

async fn connect(stand: &Stand) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    socket.connect(stand.public).await.unwrap()
}
