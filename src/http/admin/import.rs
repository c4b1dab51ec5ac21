//! `/import`: names from the provider's list enter the ledger.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::super::state::AdminState;
use super::input::{self, Input};
use super::refusal::Refusal;
use crate::domain::operation::OperationName;
use crate::store::Imported;

/// Most names of one request: they share one transaction.
const MAX_NAMES: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    names: Vec<String>,
    job_kind: Option<String>,
    #[serde(default)]
    run_effects: bool,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Done {
    operations: Vec<One>,
}

#[derive(Debug, Serialize)]
struct One {
    name: OperationName,
    outcome: Imported,
}

pub(super) async fn import(
    State(state): State<Arc<AdminState>>,
    Input(asked): Input<Asked>,
) -> Result<Json<Done>, Refusal> {
    if asked.names.len() > MAX_NAMES {
        return Err(Refusal::bad_request(format!(
            "names: at most {MAX_NAMES} in one request."
        )));
    }
    let names: Result<Vec<_>, _> = asked.names.iter().map(|name| input::name(name)).collect();
    let (names, job_kind) = (names?, asked.job_kind.as_deref());
    let job_kind = job_kind.map(input::job_kind).transpose()?;
    let done = if asked.dry_run {
        state.store.would_import(names).await?
    } else {
        let registrar = &state.registrar;
        registrar.import(names, job_kind, asked.run_effects).await?
    };
    let one = |(name, outcome)| One { name, outcome };
    Ok(Json(Done {
        operations: done.into_iter().map(one).collect(),
    }))
}
