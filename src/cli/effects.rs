//! `effects`: the outbox, and a person's word on it.

use serde_json::Value;
use uuid::Uuid;

use super::access::Access;
use super::args::{Effects, End, Nested};
use super::bulk::{self, Bulk, Job};
use super::failure::Failure;
use super::output::{Column, Output, cell, fields};
use super::watch;
use crate::domain::effect::EffectState;

const COLUMNS: [Column; 8] = [
    ("ID", "id"),
    ("OPERATION", "operation_name"),
    ("EFFECT", "effect"),
    ("ON", "cause"),
    ("STATE", "state"),
    ("ATTEMPTS", "attempts"),
    ("NEXT ATTEMPT", "next_attempt_at"),
    ("LAST ERROR", "last_error"),
];
const FIELDS: [&str; 13] = [
    "id",
    "operation_id",
    "operation_name",
    "effect",
    "cause",
    "idempotency_key",
    "state",
    "planned_at",
    "next_attempt_at",
    "give_up_at",
    "attempts",
    "finished_at",
    "last_error",
];

pub(super) async fn run(
    access: &Access,
    args: Nested<Effects>,
    output: &Output,
) -> Result<(), Failure> {
    let (id, end): (Uuid, Option<End>) = match args.verb {
        Effects::List { flags, page } => {
            let ask = || access.effects(&flags, &page);
            let print = |out: &Output, found: &Value| out.list(found, "effects", &COLUMNS);
            return watch::show(output, page.watch.every, ask, print, |_| false).await;
        }
        Effects::Show { id } => {
            let effect = access.effect(id).await?;
            return output.answer(&effect, |_| fields(&effect, &FIELDS));
        }
        Effects::Retry {
            id: None,
            flags,
            dry_run,
        } => {
            let stuck = flags.state().filter(|s| EffectState::STUCK.contains(s));
            let stuck = stuck.ok_or_else(|| {
                Failure::usage("which? Name an effect, or say --state dead, held or ambiguous")
            })?;
            let bulk = Bulk {
                job: Job::Effects(flags.filter(), stuck),
                query: flags.query(),
            };
            return bulk::run(access, bulk, dry_run, output).await;
        }
        Effects::Retry {
            id: Some(id),
            flags,
            dry_run,
        } => {
            if dry_run || !flags.query().pairs().is_empty() {
                return Err(Failure::usage(
                    "an effect is named; leave out what chooses among many",
                ));
            }
            (id, None)
        }
        Effects::Resolve { id, end } => (id, Some(end)),
    };
    let effect: Value = access.decide_effect(id, end).await?;
    output.answer(&effect, |_| {
        let (name, state) = (cell(effect.get("effect")), cell(effect.get("state")));
        format!("{name} {id} is {state}\n")
    })
}
