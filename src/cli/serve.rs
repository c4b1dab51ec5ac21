//! `serve`: the service, until SIGTERM or SIGINT. SIGHUP has it read its secrets again.

use super::args::Global;
use super::backup::with_backup;
use super::failure::Failure;
use super::load;
use crate::app;
use crate::config::{self, Purpose};
use crate::store::OpenError;

pub(super) async fn run(global: &Global) -> Result<(), Failure> {
    let inputs = load::inputs(global)?;
    let loaded = config::load(&inputs, Purpose::Serve)?;
    load::log_as(&loaded.settings)?;
    load::warn(&loaded);
    let again = || {
        let loaded = config::load(&inputs, Purpose::Serve)?;
        load::warn(&loaded);
        Ok(loaded)
    };
    app::serve(&loaded, again).await.map_err(|error| {
        error.downcast::<OpenError>().map_or_else(
            |error| Failure::failed(format!("{error:#}")),
            |error| with_backup(error, &loaded.settings),
        )
    })
}
