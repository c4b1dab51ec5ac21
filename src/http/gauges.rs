//! Gauges that are looked up when somebody asks, instead of being kept up to date by every floor.
//!
//! What the store could not tell keeps its last value; that the store could not tell is what
//! `/healthz` says.

use std::time::Duration;

use super::health::{Figures, Health};
use crate::base::clock::Timestamp;
use crate::telemetry::metrics;

/// Brings the gauges up to date.
pub(super) async fn refresh(health: &Health) {
    if let Some(figures) = health.figures().await {
        of_store(&figures, health.now());
    }
    metrics::fetching_paused(health.is_fetching_paused());
    metrics::write_queue(health.waiting_bytes());
    for one in health.loops() {
        metrics::loop_restarts(one.name, one.restarts);
        metrics::loop_age(one.name, one.age, health.bound(one.name));
    }
}

fn of_store(figures: &Figures, now: Timestamp) {
    let g = &figures.gauges;
    let wait = |due: Option<Timestamp>| due.map_or(Duration::ZERO, |due| now.since(due));
    metrics::queue(g.ready + g.leased, wait(g.oldest_due), g.dead);
    for (state, count) in [
        ("reserved", g.reserved),
        ("pending", g.pending),
        ("gone", g.gone),
        ("anomalous", g.anomalous),
    ] {
        metrics::operations(state, count);
    }
    metrics::overdue(g.overdue);
    for (state, count) in [
        ("planned", g.effects_planned),
        ("sending", g.effects_sending),
        ("ambiguous", g.effects_ambiguous),
        ("held", g.effects_held),
        ("dead", g.effects_dead),
    ] {
        metrics::effects(state, count);
    }
    metrics::oldest_effect(wait(figures.next_effect_due));
    metrics::alerts_open(g.alerts_open);
    if let Some(free) = figures.disk_free {
        metrics::store_size(figures.db_bytes, figures.wal_bytes, free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Gauges;
    use crate::telemetry::metrics::Metrics;

    #[test]
    fn figures_reach_the_page() {
        let now = Timestamp::from_millis(100_000);
        let figures = Figures {
            gauges: Gauges {
                ready: 3,
                leased: 1,
                dead: 2,
                oldest_due: Some(Timestamp::from_millis(98_500)),
                pending: 7,
                overdue: 4,
                effects_held: 5,
                alerts_open: 6,
                ..Gauges::default()
            },
            next_effect_due: Some(Timestamp::from_millis(160_000)),
            db_bytes: 4096,
            wal_bytes: 512,
            disk_free: Some(1 << 30),
        };
        let (recorder, page) = Metrics::local();
        ::metrics::with_local_recorder(&recorder, || of_store(&figures, now));
        let page = page.render();
        for line in [
            "hookledger_queue_depth 4",
            "hookledger_oldest_due_seconds 1.5",
            "hookledger_dead_letters 2",
            "hookledger_operations{state=\"pending\"} 7",
            "hookledger_operations_overdue 4",
            "hookledger_effects{state=\"held\"} 5",
            "hookledger_oldest_effect_seconds 0",
            "hookledger_alerts_open 6",
            "hookledger_store_bytes{file=\"db\"} 4096",
            "hookledger_disk_free_bytes 1073741824",
        ] {
            assert!(
                page.contains(&format!("{line}\n")),
                "{line}\nnot in\n{page}"
            );
        }
    }
}
