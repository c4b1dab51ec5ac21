//! The configuration, from this process's environment and flags; and logging by it.

use std::io::IsTerminal as _;

use super::args::Global;
use super::failure::Failure;
use super::output;
use crate::config::{self, Inputs, Loaded, Problems, Purpose, Settings};
use crate::telemetry::logging::{self, Style};

/// What `config::load` reads from.
pub(super) fn inputs(global: &Global) -> Result<Inputs, Failure> {
    let mut inputs = Inputs::new().with_environment(std::env::vars_os());
    if let Some(path) = &global.config {
        inputs = inputs.with_path(path);
    }
    match global.verbose {
        0 => {}
        1 => inputs = inputs.with_flag("log.filter", "info,hookledger=debug"),
        _ => inputs = inputs.with_flag("log.filter", "debug,hookledger=trace"),
    }
    for pair in &global.set {
        // The text is not repeated: it may be a secret.
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Failure::usage("--set takes KEY=VALUE, as in --set server.listen=127.0.0.1:8080")
        })?;
        inputs = inputs.with_flag(key.trim(), value);
    }
    Ok(inputs)
}

/// To read the ledger or call the service. Logs only when asked to.
pub(super) fn for_client(global: &Global) -> Result<Loaded, Failure> {
    let loaded = config::load(&inputs(global)?, Purpose::Client)?;
    if global.verbose > 0 {
        log_as(&loaded.settings)?;
        warn(&loaded);
    } else {
        for warning in loaded.warnings.iter().filter(|w| w.variable) {
            output::note(&warning.to_string());
        }
    }
    Ok(loaded)
}

/// To run the service: everything must be there and strong.
pub(super) fn for_serve(global: &Global) -> Result<Result<Loaded, Problems>, Failure> {
    Ok(config::load(&inputs(global)?, Purpose::Serve))
}

/// Logs to standard error from here on.
pub(super) fn log_as(settings: &Settings) -> Result<(), Failure> {
    let terminal = std::io::stderr().is_terminal();
    let style = match (settings.log.format.is_json(terminal), terminal) {
        (true, _) => Style::Json,
        (false, true) => Style::Coloured,
        (false, false) => Style::Text,
    };
    logging::init(&settings.log.filter, style, std::io::stderr)
        .map_err(|error| Failure::usage(error.to_string()))
}

/// Logs what an operator should know.
pub(super) fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!(
            key = warning.key,
            "configuration: {} {}",
            warning.key,
            warning.what
        );
    }
}
