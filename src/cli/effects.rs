//! `effects`: the outbox, and a person's word on it.

use serde_json::Value;
use uuid::Uuid;

use super::access::Access;
use super::args::{Effects, End, Nested};
use super::failure::Failure;
use super::output::{Column, Output, cell};

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

pub(super) async fn run(
    access: &Access,
    args: Nested<Effects>,
    output: &Output,
) -> Result<(), Failure> {
    let (id, end): (Uuid, Option<End>) = match args.verb {
        Effects::List { flags, page } => {
            return output.list(&access.effects(&flags, &page).await?, "effects", &COLUMNS);
        }
        Effects::Retry { id } => (id, None),
        Effects::Resolve { id, end } => (id, Some(end)),
    };
    let effect: Value = access.decide_effect(id, end).await?;
    output.answer(&effect, |_| {
        let (name, state) = (cell(effect.get("effect")), cell(effect.get("state")));
        format!("{name} {id} is {state}\n")
    })
}
