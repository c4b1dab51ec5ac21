//! Putting jobs into the ledger, and the operator's word on what is in it.
//!
//! One use case each for the API and the command line, so that both say the same.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::policy::Policy;
use crate::base::clock::Clock;
use crate::base::ids::Ids;
use crate::domain::ledger::PlanEffects;
use crate::domain::operation::{JobKind, OperationName};
use crate::store::{
    Binding, EffectRetry, Import, Imported, NewRegistration, Registered, Reservation, Store,
    StoreError, Terms,
};

/// Registers, reserves, binds and retries.
#[derive(Debug, Clone)]
pub struct Registrar {
    pub(super) store: Store,
    pub(super) planner: Arc<dyn PlanEffects>,
    pub(super) clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    pub(super) policy: Policy,
}

impl Registrar {
    /// A registrar under this policy.
    pub fn new(
        store: Store,
        planner: Arc<dyn PlanEffects>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        policy: Policy,
    ) -> Self {
        Self {
            store,
            planner,
            clock,
            ids,
            policy,
        }
    }

    /// Registers a job that was submitted.
    pub async fn register(
        &self,
        name: OperationName,
        job_kind: JobKind,
        user_metadata: Option<Value>,
    ) -> Result<Registered, StoreError> {
        let terms = self.policy.terms(name.kind(), self.clock.now());
        let new = NewRegistration {
            name,
            job_kind,
            user_metadata,
            terms,
        };
        self.store.register(new, Arc::clone(&self.planner)).await
    }

    /// Takes names of the provider's list over; they are looked at at once. Unless `run_effects`,
    /// the effects of what has ended already are withheld.
    pub async fn import(
        &self,
        names: Vec<OperationName>,
        job_kind: Option<JobKind>,
        run_effects: bool,
    ) -> Result<Vec<(OperationName, Imported)>, StoreError> {
        let now = self.clock.now();
        let with_terms = |name: OperationName| {
            let terms = Terms {
                first_look_at: now,
                ..self.policy.terms(name.kind(), now)
            };
            (name, terms)
        };
        let import = Import {
            names: names.into_iter().map(with_terms).collect(),
            job_kind,
            run_effects,
        };
        self.store.import(import).await
    }

    /// Makes a record for a job that is about to be submitted, and gives its ledger id.
    pub async fn reserve(
        &self,
        job_kind: JobKind,
        user_metadata: Option<Value>,
    ) -> Result<Uuid, StoreError> {
        let id = self.ids.uuid(self.clock.now());
        self.store
            .reserve(Reservation {
                id,
                job_kind,
                user_metadata,
            })
            .await?;
        Ok(id)
    }

    /// Gives a reserved record the name of its job.
    pub async fn bind(&self, id: Uuid, name: OperationName) -> Result<Binding, StoreError> {
        let terms = self.policy.terms(name.kind(), self.clock.now());
        self.store
            .bind(id, name, terms, Arc::clone(&self.planner))
            .await
    }

    /// Looks again at an open operation; plans and revives the effects of a settled one, with the
    /// same keys. False when there is no such operation.
    pub async fn retry(&self, id: Uuid) -> Result<bool, StoreError> {
        let give_up_at = self.policy.give_up_at(self.clock.now());
        self.store
            .retry_operation(id, give_up_at, Arc::clone(&self.planner))
            .await
    }

    /// A person's word on an effect. False when there is none, or it is being sent right now.
    pub async fn resolve_effect(&self, id: Uuid, what: EffectRetry) -> Result<bool, StoreError> {
        let give_up_at = self.policy.give_up_at(self.clock.now());
        self.store
            .resolve_effect(id, what, give_up_at, Arc::clone(&self.planner))
            .await
    }
}
