//! `serve`: the service, until SIGTERM or SIGINT.

use super::args::Global;
use super::backup::with_backup;
use super::failure::Failure;
use super::load;
use crate::app;
use crate::store::OpenError;

pub(super) async fn run(global: &Global) -> Result<(), Failure> {
    let loaded = load::for_serve(global)??;
    load::log_as(&loaded.settings)?;
    load::warn(&loaded);
    app::serve(&loaded.settings).await.map_err(|error| {
        error.downcast::<OpenError>().map_or_else(
            |error| Failure::failed(format!("{error:#}")),
            |error| with_backup(error, &loaded.settings),
        )
    })
}
