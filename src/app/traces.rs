//! Traces, from their settings to a loop that exports them.
//!
//! The loop's group stops last: what the others did while they stopped is exported, too.

use std::sync::Arc;

use crate::base::clock::Clock;
use crate::base::secret::Secret;
use crate::base::shutdown::Shutdown;
use crate::config::settings;
use crate::telemetry::traces::{Error, Options, Traces};

/// Starts exporting in `group`, when there is somewhere to export to.
pub(super) fn start(
    settings: &settings::Traces,
    clock: &Arc<dyn Clock>,
    group: &Shutdown,
) -> Result<Traces, Error> {
    let Some(endpoint) = settings.endpoint.clone() else {
        return Ok(Traces::default());
    };
    let options = Options {
        endpoint,
        headers: headers(settings),
        service_name: settings.service_name.clone(),
        sample_percent: settings.sample_percent,
    };
    let (traces, exporter) = Traces::new(&options, Arc::clone(clock))?;
    let (exporter, stop) = (Arc::new(exporter), group.clone());
    group.spawn_loop("traces", move |heart| {
        Arc::clone(&exporter).run_loop(stop.clone(), heart)
    });
    Ok(traces)
}

/// The headers that are sent along.
pub(super) fn headers(settings: &settings::Traces) -> Vec<(String, Secret)> {
    let all = settings.headers.iter();
    all.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
