//! A steady stream of true deliveries, each answered with 200 or the row fails.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hookledger::base::clock::{Clock as _, SystemClock};

use crate::support::stand::{Stand, succeeded};

/// Most answers that may be outstanding before the stream waits for one.
const OUTSTANDING: usize = 64;

/// Sends `per_second` deliveries from `address` until `meanwhile` has ended. Returns what it returned
/// and how many were accepted.
pub(crate) async fn beside<T>(
    stand: &Stand,
    address: &str,
    per_second: u32,
    meanwhile: impl Future<Output = T>,
) -> (T, u32) {
    let from: IpAddr = address.parse().unwrap();
    let http = reqwest::Client::builder()
        .no_proxy()
        .local_address(from)
        // A kept connection may be closed for its silence just when it is used again.
        .pool_max_idle_per_host(0)
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap();
    let clock = SystemClock::new();
    let pace = Duration::from_secs(1) / per_second;
    let mut meanwhile = pin!(meanwhile);
    let mut answers = FuturesUnordered::new();
    let mut sent = 0;
    let result = loop {
        let id = format!("beside-{sent}");
        // Of an operation that does not exist: the door is the subject, not the ledger.
        let request = stand
            .signed(&id, succeeded(&format!("batches/{id}")))
            .build()
            .unwrap();
        answers.push(http.execute(request));
        sent += 1;
        let due = pace * sent;
        tokio::select! {
            biased;
            result = &mut meanwhile => break result,
            () = keep_up(&mut answers, &clock, due) => {}
        }
    };
    while let Some(answer) = answers.next().await {
        assert_eq!(answer.unwrap().status(), 200, "a true delivery");
    }
    (result, sent)
}

type Answer = reqwest::Result<reqwest::Response>;

/// Takes answers until the next delivery is due.
async fn keep_up<F: Future<Output = Answer>>(
    answers: &mut FuturesUnordered<F>,
    clock: &SystemClock,
    due: Duration,
) {
    loop {
        let full = answers.len() >= OUTSTANDING;
        let rest = due.saturating_sub(clock.monotonic());
        tokio::select! {
            Some(answer) = answers.next() => {
                assert_eq!(answer.unwrap().status(), 200, "a true delivery");
            }
            () = clock.sleep(rest), if !full => return,
        }
    }
}

/// The most memory that the program has held so far, in bytes.
pub(crate) fn peak_memory(stand: &Stand) -> u64 {
    let process = stand.service.as_ref().unwrap().id();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib << 10
}
