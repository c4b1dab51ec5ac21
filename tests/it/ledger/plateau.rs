//! A ledger that takes in as much as it lets go stops growing.

use std::time::Duration;

use hookledger::reconcile::upkeep::Upkeep;
use serde_json::json;

use super::HOUR;
use crate::support::world::{World, succeeded};

/// Hours that everything is kept.
const KEPT: u32 = 24;
/// Deliveries an hour, each with a body of about 4 KiB.
const HOURLY: u32 = 6;

/// The smallest and the largest.
fn spread(sizes: &[u64]) -> (u64, u64) {
    let most = sizes.iter().copied().max().unwrap_or(0);
    let least = sizes.iter().copied().min().unwrap_or(0);
    (least, most)
}

#[tokio::test]
async fn twice_the_retention_of_deliveries_fits_into_the_file_of_once() {
    let w = World::with(
        "[store]\nevent_retention = '24h'\nbody_retention = '12h'\n\
         [ledger]\nretention = '24h'\ntombstone_retention = '24h'\n\
         [hooks]\ndedupe_ttl = '25h'",
    )
    .await;
    let upkeep = Upkeep::new(
        w.base.store.clone(),
        w.planner.clone(),
        w.base.clock.clone(),
        &w.settings,
    );
    let file = w.dir().path().join("test.db");
    let pad = "x".repeat(4000);
    let mut sizes = Vec::new();
    for hour in 0..KEPT * 4 {
        for n in 0..HOURLY {
            let name = format!("batches/h{hour}n{n}");
            w.api.says(&name, succeeded(&name));
            let body = json!({"type": "batch.succeeded", "data": {"id": name}, "pad": pad});
            w.deliver(&format!("m{hour}-{n}"), body).await;
        }
        w.work().await;
        w.send().await;
        w.reconcile().await;
        while upkeep.step().await.unwrap().any() {}
        while w.base.store.tidy().await.unwrap() > 0 {}
        w.advance(HOUR);
        sizes.push(pages(&file).await);
    }
    // Finished work items are kept for a week whatever is configured: they are small, and few.
    let later = &sizes[sizes.len() - usize::try_from(KEPT).unwrap()..];
    let (least, most) = spread(later);
    assert!(
        most * 10 <= least * 11,
        "{least} to {most} bytes: {sizes:?}"
    );
    let full = sizes[usize::try_from(KEPT).unwrap() - 1];
    assert!(
        most * 10 <= full * 12,
        "{full} bytes after one retention, {most} after four"
    );
    assert!(
        Duration::from_hours(24 * 7) > 4 * KEPT * HOUR,
        "the work items of this test are all kept"
    );
}

/// What the file will be once its log is worked in.
async fn pages(file: &std::path::Path) -> u64 {
    use sqlx::Connection as _;
    let mut file = crate::support::outside::open(file).await;
    let bytes: i64 = sqlx::query_scalar(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    )
    .fetch_one(&mut file)
    .await
    .unwrap();
    file.close().await.unwrap();
    u64::try_from(bytes).unwrap()
}
