//! What one statement, one turn or one page costs on a given file, timed from inside: over HTTP the
//! differences that matter here would drown.
//!
//! The clock is set by hand, so that what is due is what the file says, and a turn does not depend on
//! when it is run. Times are of the real clock.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hookledger::base::clock::{Clock, ManualClock, SystemClock, Timestamp};
use hookledger::base::ids::{Ids, RandomIds};
use hookledger::base::shutdown::Shutdown;
use hookledger::config::{self, Inputs, Purpose, Settings};
use hookledger::domain::ledger::PlanEffects;
use hookledger::domain::operation::OperationState;
use hookledger::effects::plan::Planner;
use hookledger::reconcile::Reconciler;
use hookledger::reconcile::upkeep::Upkeep;
use hookledger::store::{
    EffectFilter, EventFilter, OpenOptions, OperationFilter, Store, StoreError, WorkFilter,
};
use serde_json::{Map, Value, json};

use super::figures::{Times, rate};
use super::print;

#[derive(Debug, Args)]
pub(crate) struct Inside {
    /// What to time.
    #[arg(value_enum, required = true)]
    what: Vec<What>,
    /// The file.
    #[arg(long)]
    db: PathBuf,
    /// The wall clock's time, in milliseconds since the Unix epoch.
    #[arg(long)]
    at_ms: i64,
    /// How often.
    #[arg(long, default_value_t = 20)]
    times: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// A claim of eight items.
    Claim,
    /// A turn of reconciliation; the clock goes on by a minute between two.
    Reconcile,
    /// Every list, its first page and one far behind.
    Lists,
    /// A batch of pruning.
    Prune,
}

/// One store, and what its use cases need.
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) planner: Arc<dyn PlanEffects>,
    pub(crate) settings: Settings,
    pub(crate) group: Shutdown,
    real: SystemClock,
}

impl Bench {
    /// Opens (or makes) the file.
    pub(crate) async fn open(db: PathBuf, at: Timestamp) -> anyhow::Result<Self> {
        let settings = config::load(&Inputs::new(), Purpose::Client)?.settings;
        let clock = Arc::new(ManualClock::starting_at(at));
        let ids: Arc<dyn Ids> = Arc::new(RandomIds::from_system());
        let group = Shutdown::new(Arc::new(SystemClock::new()));
        let options = OpenOptions {
            path: db,
            create: true,
            readers: settings.store.readers,
            max_waiting: settings.hooks.max_waiting,
            check_at_once: hookledger::store::CHECK_AT_ONCE,
        };
        let store = Store::open(&options, clock.clone(), Arc::clone(&ids), &group).await?;
        Ok(Self {
            store,
            clock,
            ids,
            planner: Arc::new(Planner::default()),
            settings,
            group,
            real: SystemClock::new(),
        })
    }

    /// Writes everything to its place and lets go of the file.
    pub(crate) async fn close(self) {
        self.store.close().await;
        self.group.drain(Duration::from_secs(30)).await;
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.real.monotonic()
    }

    pub(crate) fn upkeep(&self) -> Upkeep {
        let (planner, clock) = (Arc::clone(&self.planner), self.clock.clone());
        Upkeep::new(self.store.clone(), planner, clock, &self.settings)
    }

    async fn time<T, F>(&self, times: &mut Times, work: F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let began = self.elapsed();
        let done = work.await?;
        times.add(self.elapsed().saturating_sub(began));
        Ok(done)
    }
}

pub(crate) fn run(inside: Inside) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(measure(inside))
}

async fn measure(inside: Inside) -> anyhow::Result<()> {
    let began = SystemClock::new();
    let bench = Bench::open(inside.db, Timestamp::from_millis(inside.at_ms)).await?;
    let mut said = Map::new();
    said.insert(
        "open_seconds".to_owned(),
        began.monotonic().as_secs_f64().into(),
    );
    for what in inside.what {
        let (name, figures) = match what {
            What::Claim => ("claim", claim(&bench, inside.times).await?),
            What::Reconcile => ("reconcile", reconcile(&bench, inside.times).await?),
            What::Lists => ("lists", lists(&bench, inside.times).await?),
            What::Prune => ("prune", prune(&bench, inside.times).await?),
        };
        said.insert(name.to_owned(), figures);
    }
    bench.close().await;
    print::document(&Value::Object(said))
}

async fn claim(bench: &Bench, times: u32) -> anyhow::Result<Value> {
    let (mut took, mut claimed) = (Times::default(), 0);
    // The first prepares its statements.
    for turn in 0..=times {
        let mut one = Times::default();
        let lease = Duration::from_secs(60);
        let claim = bench.store.claim(8, 8, 8, lease);
        let leases = bench.time(&mut one, claim).await?;
        if turn > 0 {
            claimed += leases.len();
            took.join(one);
        }
    }
    Ok(json!({"claimed": claimed, "us": took.summary()}))
}

async fn reconcile(bench: &Bench, times: u32) -> anyhow::Result<Value> {
    let (planner, clock) = (Arc::clone(&bench.planner), bench.clock.clone());
    let reconciler = Reconciler::new(
        bench.store.clone(),
        planner,
        Vec::new(),
        clock,
        &bench.settings,
    );
    let (mut took, mut queued) = (Times::default(), 0);
    // Before the first, nothing is due; it prepares the statements.
    reconciler.step().await?;
    for _ in 0..times {
        bench.clock.advance(Duration::from_secs(60));
        queued += bench.time(&mut took, reconciler.step()).await?.looks_queued;
    }
    Ok(json!({"looks_queued": queued, "us": took.summary()}))
}

async fn lists(bench: &Bench, times: u32) -> anyhow::Result<Value> {
    let reader = bench.store.reader();
    let page = 50;
    let middle = {
        // Ids sort by time: one made in the middle of the file's life is far behind in the list.
        let half = Duration::from_hours(24 * 3);
        bench.ids.uuid(bench.clock.now().before(half))
    };
    let all = EventFilter::default();
    let one = EventFilter {
        segment: Some("fill-1000".to_owned()),
        ..EventFilter::default()
    };
    let every = OperationFilter::default();
    let pending = OperationFilter {
        state: Some(OperationState::Pending),
        ..OperationFilter::default()
    };
    let (work, effects) = (WorkFilter::default(), EffectFilter::default());
    let mut said = Map::new();
    macro_rules! page {
        ($name:literal, $read:expr) => {
            let mut took = Times::default();
            drop($read.await?);
            for _ in 0..times {
                drop(bench.time(&mut took, $read).await?);
            }
            said.insert($name.to_owned(), took.summary());
        };
    }
    page!("events", reader.events(&all, None, page));
    page!("events, far", reader.events(&all, Some(middle), page));
    page!("events of one operation", reader.events(&one, None, page));
    page!("operations", reader.operations(&every, None, page));
    page!(
        "operations, far",
        reader.operations(&every, Some(middle), page)
    );
    page!(
        "operations, pending",
        reader.operations(&pending, None, page)
    );
    page!("work items", reader.work_items(&work, None, page));
    page!(
        "work items, far",
        reader.work_items(&work, Some(1_000_000), page)
    );
    page!("effects", reader.effects(&effects, None, page));
    Ok(Value::Object(said))
}

async fn prune(bench: &Bench, times: u32) -> anyhow::Result<Value> {
    let upkeep = bench.upkeep();
    upkeep.step().await?;
    let (mut took, began) = (Times::default(), bench.elapsed());
    let mut events = 0;
    for _ in 0..times {
        events += bench.time(&mut took, upkeep.step()).await?.events;
    }
    let seconds = bench.elapsed().saturating_sub(began);
    let events = usize::try_from(events).unwrap_or(usize::MAX);
    Ok(
        json!({"events": events, "events_per_second": rate(events, seconds), "batch_us": took.summary()}),
    )
}
