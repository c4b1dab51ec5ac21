//! A real store in a directory of its own, under a clock that moves when told.

use std::sync::Arc;

use hookledger::base::clock::{Clock, ManualClock, Timestamp};
use hookledger::base::ids::{Ids, RandomIds};
use hookledger::base::shutdown::Shutdown;
use hookledger::store::{OpenOptions, Store};

/// 2026-01-22T12:00:00Z, where every test's clock stands at first.
pub(crate) const START_MS: i64 = 1_769_083_200_000;

pub(crate) struct TestStore {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) group: Shutdown,
    /// Removed with everything in it when dropped.
    #[expect(dead_code, reason = "held for as long as the store is")]
    pub(crate) dir: tempfile::TempDir,
}

impl TestStore {
    pub(crate) async fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(START_MS)));
        let ids: Arc<dyn Ids> = Arc::new(RandomIds::seeded(7));
        let group = Shutdown::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let options = OpenOptions {
            path: dir.path().join("webhook.db"),
            readers: 2,
            max_waiting: 1 << 20,
        };
        let store = Store::open(&options, clock.clone(), ids.clone(), &group)
            .await
            .unwrap();
        Self {
            store,
            clock,
            ids,
            group,
            dir,
        }
    }
}
