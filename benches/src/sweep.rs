//! A file that lives through twice its retention: what it weighs when it has been full for as long
//! again as it took to fill.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hookledger::base::clock::{Clock as _, Timestamp};
use hookledger::receive::parse;
use hookledger::store::NewDelivery;
use serde_json::json;

use super::inside::Bench;
use super::print;

const DAY: Duration = Duration::from_hours(24);
/// 2026-01-01.
const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

pub(crate) fn lifetimes(db: PathBuf, daily: u32) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(live(db, daily))
}

async fn live(db: PathBuf, daily: u32) -> anyhow::Result<()> {
    let bench = Bench::open(db.clone(), BEGINNING).await?;
    let upkeep = bench.upkeep();
    let days = u32::try_from(bench.settings.store.event_retention.as_secs() / DAY.as_secs())?;
    let mut sizes = Vec::new();
    for day in 0..=days * 2 {
        let waiting = (0..daily).map(|n| bench.store.deliver(delivery(&bench, day, n)));
        // Waited for together, so that they share commits.
        for done in join_all(waiting).await {
            done?;
        }
        while upkeep.step().await?.any() {}
        while bench.store.tidy().await? > 0 {}
        bench.clock.advance(DAY);
        sizes.push(size(&db));
    }
    let nth = |day: u32| {
        sizes
            .get(usize::try_from(day).unwrap_or(usize::MAX))
            .copied()
    };
    let said = json!({
        "days_kept": days,
        "deliveries_a_day": daily,
        "bytes_after_one_retention": nth(days),
        "bytes_after_two": nth(days * 2),
    });
    bench.close().await;
    print::document(&said)
}

/// A ping: without a worker an item would wait for ever, and an event that is waited for stays.
fn delivery(bench: &Bench, day: u32, n: u32) -> NewDelivery {
    let now = bench.clock.now();
    let body = format!(
        "{{\"type\":\"webhook.ping\",\"version\":\"v1\",\"data\":{{\"id\":\"day-{day}-{n}\"}},\"pad\":\"{}\"}}",
        "x".repeat(400)
    );
    let facts = parse::read(body.as_bytes(), Some(&format!("d{day}-{n}")));
    NewDelivery {
        id: bench.ids.uuid(now),
        source: "gemini".to_owned(),
        received_at: now,
        event_type: facts.event_type,
        operation: facts.operation,
        dedupe_key: facts.dedupe_key,
        dedupe_until: now.after(bench.settings.hooks.dedupe_ttl),
        ignored_because: facts.ignored_because,
        webhook_id: Some(format!("d{day}-{n}")),
        proof: "standard_webhooks".to_owned(),
        reservation: None,
        replay_of: None,
        user_metadata: None,
        headers: Vec::new(),
        body: Bytes::from(body),
    }
}

/// The file without its log, which is worked into it and has a bound of its own.
fn size(db: &Path) -> u64 {
    std::fs::metadata(db).map_or(0, |m| m.len())
}
