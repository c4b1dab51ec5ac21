//! The ledger, by way of the service or of its file.
//!
//! Problem: beside a running service the file may be read but not written (the service holds the
//! instance lock and would not notice); without one there is only the file. The caller should not
//! have to know.
//!
//! Design: if a token is configured and the admin API answers to it, everything goes through the
//! service. Otherwise the file: reading opens it read-only and never needs the lock; writing takes
//! the lock for as long as the command runs, through the same use cases the service has. Both make
//! the same JSON documents.
//!
//! Race: a service that starts between the look and the write holds the lock, so the write is
//! refused; one that stops in between ends the command with an error that says so. Nothing is done
//! twice.

use serde_json::{Value, json};
use uuid::Uuid;

use super::args::{
    EffectFlags, End, EventFlags, Import, OperationFlags, PageArgs, Query, QueueFlags, Which,
};
use super::bulk::{Bulk, Sum};
use super::client::{Client, Found};
use super::failure::Failure;
use super::file::File;
use crate::config::Settings;
use crate::domain::operation::{JobKind, OperationName};

/// Who answers.
#[derive(Debug)]
enum Via {
    Service(Client),
    File(Box<File>),
}

/// The ledger.
#[derive(Debug)]
pub(super) struct Access {
    settings: Settings,
    via: Via,
}

impl Access {
    /// Finds out who answers.
    pub(super) async fn open(settings: Settings) -> Result<Self, Failure> {
        let found = match settings.admin.best() {
            Some(token) => Client::find(settings.admin.listen, token).await?,
            None => Found::Nothing,
        };
        let file = |refused| Via::File(Box::new(File::new(settings.clone(), refused)));
        let via = match found {
            Found::Service(client) => Via::Service(client),
            Found::Refused => file(true),
            Found::Nothing => file(false),
        };
        tracing::debug!(
            service = matches!(via, Via::Service(_)),
            "found out who answers"
        );
        Ok(Self { settings, via })
    }

    /// What is configured here; the service may have been started with something else.
    pub(super) const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) async fn register(
        &self,
        name: OperationName,
        job_kind: JobKind,
        user_metadata: Option<Value>,
    ) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => {
                let mut body = json!({"name": name, "job_kind": job_kind});
                add(&mut body, "user_metadata", user_metadata);
                service.post("/api/v1/operations", &body).await
            }
            Via::File(file) => file.register(name, job_kind, user_metadata).await,
        }
    }

    pub(super) async fn reserve(
        &self,
        job_kind: JobKind,
        user_metadata: Option<Value>,
    ) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => {
                let mut body = json!({"job_kind": job_kind});
                add(&mut body, "user_metadata", user_metadata);
                service.post("/api/v1/reservations", &body).await
            }
            Via::File(file) => file.reserve(job_kind, user_metadata).await,
        }
    }

    pub(super) async fn bind(&self, id: Uuid, name: OperationName) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => {
                let path = format!("/api/v1/reservations/{id}/bind");
                service.post(&path, &json!({"name": name})).await
            }
            Via::File(file) => file.bind(id, name).await,
        }
    }

    pub(super) async fn operations(
        &self,
        flags: &OperationFlags,
        page: &PageArgs,
    ) -> Result<Value, Failure> {
        fill("operations", page, |page| async move {
            match &self.via {
                Via::Service(service) => {
                    list(service, "/api/v1/operations", flags.query(), &page).await
                }
                Via::File(file) => file.operations(flags, &page).await,
            }
        })
        .await
    }

    pub(super) async fn operation(&self, which: &Which) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => service.get(&path_of(which, ""), &[]).await,
            Via::File(file) => file.operation(which).await,
        }
    }

    pub(super) async fn retry_operation(&self, which: &Which) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => service.post(&path_of(which, "/retry"), &json!({})).await,
            Via::File(file) => file.retry_operation(which).await,
        }
    }

    pub(super) async fn events(
        &self,
        flags: &EventFlags,
        page: &PageArgs,
    ) -> Result<Value, Failure> {
        fill("events", page, |page| async move {
            match &self.via {
                Via::Service(service) => {
                    list(service, "/api/v1/events", flags.query(), &page).await
                }
                Via::File(file) => file.events(flags, &page).await,
            }
        })
        .await
    }

    pub(super) async fn event(&self, id: Uuid) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => service.get(&format!("/api/v1/events/{id}"), &[]).await,
            Via::File(file) => file.event(id).await,
        }
    }

    pub(super) async fn replay(&self, id: Uuid) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => {
                let path = format!("/api/v1/events/{id}/replay");
                service.post(&path, &json!({})).await
            }
            Via::File(file) => file.replay(id).await,
        }
    }

    pub(super) async fn queue(
        &self,
        flags: &QueueFlags,
        page: &PageArgs,
    ) -> Result<Value, Failure> {
        fill("items", page, |page| async move {
            match &self.via {
                Via::Service(service) => list(service, "/api/v1/queue", flags.query(), &page).await,
                Via::File(file) => file.queue(flags, &page).await,
            }
        })
        .await
    }

    /// Carries bulk recovery out, page by page, and says after each how many fitted.
    pub(super) async fn bulk(
        &self,
        bulk: &Bulk,
        dry_run: bool,
        told: &(dyn Fn(u64) + Sync),
    ) -> Result<Sum, Failure> {
        let service = match &self.via {
            Via::Service(service) => service,
            Via::File(file) => return file.bulk(bulk, dry_run, told).await,
        };
        let (mut sum, mut cursor) = (Sum::default(), None);
        loop {
            let body = bulk.body(dry_run, cursor.as_deref());
            let page = service.post(bulk.path(), &body).await?;
            let before = sum.matched;
            sum.add(&page);
            told(sum.matched - before);
            let next = page.get("next_cursor").and_then(Value::as_str);
            let Some(next) = next else { return Ok(sum) };
            cursor = Some(next.to_owned());
        }
    }

    pub(super) async fn effects(
        &self,
        flags: &EffectFlags,
        page: &PageArgs,
    ) -> Result<Value, Failure> {
        fill("effects", page, |page| async move {
            match &self.via {
                Via::Service(service) => {
                    list(service, "/api/v1/effects", flags.query(), &page).await
                }
                Via::File(file) => file.effects(flags, &page).await,
            }
        })
        .await
    }

    /// Takes names from the provider's list over.
    pub(super) async fn import(
        &self,
        names: Vec<OperationName>,
        args: &Import,
    ) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => {
                let mut body = json!({
                    "names": names,
                    "run_effects": args.run_effects,
                    "dry_run": args.dry_run,
                });
                add(
                    &mut body,
                    "job_kind",
                    args.job_kind.as_ref().map(|k| json!(k)),
                );
                service.post("/api/v1/import", &body).await
            }
            Via::File(file) => file.import(names, args).await,
        }
    }

    /// What pruning would remove.
    pub(super) async fn over(&self) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => service.get("/api/v1/prune", &[]).await,
            Via::File(file) => file.over().await,
        }
    }

    /// Removes some of what is over; the answer says whether there is more.
    pub(super) async fn prune(&self) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => service.post("/api/v1/prune", &json!({})).await,
            Via::File(file) => file.prune().await,
        }
    }

    /// Begins a rotation of the signing secret, in the service when it answers.
    pub(super) async fn rotate(&self) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => {
                service
                    .post("/api/v1/subscription/rotate", &json!({}))
                    .await
            }
            Via::File(file) => file.rotate().await,
        }
    }

    pub(super) async fn alerts(&self) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => service.get("/api/v1/alerts", &[]).await,
            Via::File(file) => file.alerts().await,
        }
    }

    pub(super) async fn effect(&self, id: Uuid) -> Result<Value, Failure> {
        match &self.via {
            Via::Service(service) => service.get(&format!("/api/v1/effects/{id}"), &[]).await,
            Via::File(file) => file.effect(id).await,
        }
    }

    /// Sends an effect again (`None`), or closes it.
    pub(super) async fn decide_effect(&self, id: Uuid, end: Option<End>) -> Result<Value, Failure> {
        match (&self.via, end) {
            (Via::Service(service), None) => {
                let path = format!("/api/v1/effects/{id}/retry");
                service.post(&path, &json!({})).await
            }
            (Via::Service(service), Some(end)) => {
                let word = match end {
                    End::Done => "done",
                    End::Dead => "dead",
                };
                let path = format!("/api/v1/effects/{id}/resolve");
                service.post(&path, &json!({"as": word})).await
            }
            (Via::File(file), end) => file.decide_effect(id, end).await,
        }
    }
}

fn add(body: &mut Value, field: &str, value: Option<Value>) {
    if let (Some(fields), Some(value)) = (body.as_object_mut(), value) {
        fields.insert(field.to_owned(), value);
    }
}

/// A name has passed its parser, so it is safe in a path with its slashes as they are.
fn path_of(which: &Which, action: &str) -> String {
    match which {
        Which::Id(id) => format!("/api/v1/operations/{id}{action}"),
        Which::Name(name) => format!("/api/v1/operations/{name}{action}"),
    }
}

async fn list(
    service: &Client,
    path: &str,
    mut query: Query,
    page: &PageArgs,
) -> Result<Value, Failure> {
    query.add("limit", Some(page.limit.to_string()));
    query.add("cursor", page.cursor.as_deref());
    service.get(path, &query.pairs()).await
}

/// A whole page, or the end: one answer looks at a bounded number of rows, and may find few of them.
async fn fill<F>(
    field: &str,
    wanted: &PageArgs,
    ask: impl Fn(PageArgs) -> F,
) -> Result<Value, Failure>
where
    F: Future<Output = Result<Value, Failure>>,
{
    let mut rest = wanted.clone();
    let mut rows = Vec::new();
    loop {
        let mut page = ask(rest.clone()).await?;
        if let Some(Value::Array(more)) = page.get_mut(field) {
            rest.limit = rest
                .limit
                .saturating_sub(u32::try_from(more.len()).unwrap_or(u32::MAX));
            rows.append(more);
        }
        let next = page.get("next_cursor").and_then(Value::as_str);
        if next.is_none() || rest.limit == 0 {
            add(&mut page, field, Some(rows.into()));
            return Ok(page);
        }
        rest.cursor = next.map(ToOwned::to_owned);
    }
}
