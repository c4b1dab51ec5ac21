//! The outbox, and a person's word on it.

use serde_json::Value;
use uuid::Uuid;

use super::super::args::{EffectFlags, End, PageArgs};
use super::super::failure::Failure;
use super::{File, document, id_cursor, paged};
use crate::store::EffectRetry;

impl File {
    pub(in crate::cli) async fn effects(
        &self,
        flags: &EffectFlags,
        page: &PageArgs,
    ) -> Result<Value, Failure> {
        let found = self
            .reader()
            .await?
            .effects(&flags.filter(), id_cursor(page)?, page.limit)
            .await?;
        paged("effects", &found)
    }

    pub(in crate::cli) async fn effect(&self, id: Uuid) -> Result<Value, Failure> {
        let effect = self.reader().await?.effect(id).await?;
        document(&effect.ok_or_else(unknown)?)
    }

    pub(in crate::cli) async fn decide_effect(
        &self,
        id: Uuid,
        end: Option<End>,
    ) -> Result<Value, Failure> {
        let what = match end {
            None => EffectRetry::Again,
            Some(End::Done) => EffectRetry::Done,
            Some(End::Dead) => EffectRetry::Dead,
        };
        self.write(|w| async move {
            let done = w.registrar.resolve_effect(id, what).await?;
            let effect = w.store.effect(id).await?.ok_or_else(unknown)?;
            if !done {
                // Nobody is sending: the lock is ours. A crash left it so.
                return Err(Failure::conflict(
                    "the effect was being sent when the service ended; the next start decides \
                     about it first",
                ));
            }
            document(&effect)
        })
        .await
    }
}

fn unknown() -> Failure {
    Failure::not_found("there is no effect of this id")
}
