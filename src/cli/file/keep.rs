//! What is done to the ledger as a whole, or beside it: pruning, importing, a new signing secret.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::args::Import;
use super::super::failure::Failure;
use super::{File, document};
use crate::base::clock::{Clock, SystemClock};
use crate::domain::operation::OperationName;
use crate::effects::plan::Undecided;
use crate::gemini::client::HttpGemini;
use crate::gemini::webhooks::WebhookApi;
use crate::reconcile::rotation::{Rotation, RotationError};
use crate::reconcile::upkeep::Upkeep;
use crate::reconcile::wanted::Wanted;
use crate::store::Imported;
use crate::verify::{SecretFile, SecretSet};

impl File {
    pub(in crate::cli) async fn import(
        &self,
        names: Vec<OperationName>,
        args: &Import,
    ) -> Result<Value, Failure> {
        let done = if args.dry_run {
            self.reader().await?.would_import(names).await?
        } else {
            let (job_kind, run_effects) = (args.job_kind.clone(), args.run_effects);
            self.write(
                |w| async move { Ok(w.registrar.import(names, job_kind, run_effects).await?) },
            )
            .await?
        };
        let one =
            |(name, outcome): (OperationName, Imported)| json!({"name": name, "outcome": outcome});
        let all: Vec<Value> = done.into_iter().map(one).collect();
        Ok(json!({"operations": all}))
    }

    pub(in crate::cli) async fn over(&self) -> Result<Value, Failure> {
        let keep = Upkeep::retention(&self.settings);
        let now = SystemClock::new().now();
        let over = self.reader().await?.over(keep, now).await?;
        Ok(json!({"over": document(&over)?}))
    }

    pub(in crate::cli) async fn prune(&self) -> Result<Value, Failure> {
        self.write(|w| async move {
            let planner = Arc::new(Undecided::new(self.settings.alerts.to.clone()));
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            let upkeep = Upkeep::new(w.store, planner, clock, &self.settings);
            let (removed, more) = upkeep.prune_for(Duration::from_secs(5)).await?;
            Ok(json!({"removed": document(&removed)?, "more": more}))
        })
        .await
    }

    pub(in crate::cli) async fn rotate(&self) -> Result<Value, Failure> {
        let settings = &self.settings;
        let Some(path) = settings.subscription.secrets_file.clone() else {
            return Err(Failure::usage(
                "there is nowhere to keep the secret; set subscription.secrets_file",
            ));
        };
        let wanted = Wanted::new(settings).ok_or_else(|| {
            Failure::usage("where deliveries go is not configured; set server.public_url")
        })?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let api = HttpGemini::new(&settings.gemini, Arc::clone(&clock))
            .map_err(|error| Failure::usage(error.to_string()))?;
        let api: Arc<dyn WebhookApi> = Arc::new(api);
        // Under the store's lock: no service that would not know the new secret runs meanwhile.
        self.write(|_| async move {
            let found = wanted.find(&*api).await;
            let found = found.map_err(|fault| Failure::failed(fault.to_string()))?;
            let webhook = found.ok_or_else(|| {
                Failure::not_found("the provider has no webhook that is the configured one")
            })?;
            let shown = path.display().to_string();
            let rotation = Rotation::new(SecretFile::new(path), SecretSet::default(), api, clock);
            match rotation.begin(&webhook.id).await {
                Ok(()) => Ok(json!({
                    "webhook_id": webhook.id.as_str(),
                    "stage": "proving",
                    "secret_stored_in": shown,
                })),
                Err(error @ RotationError::Open) => Err(Failure::conflict(error.to_string())),
                Err(error) => Err(Failure::failed(error.to_string())),
            }
        })
        .await
    }
}
