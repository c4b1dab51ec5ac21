//! The ledger's file, when no service answers.
//!
//! Reading opens it read-only beside whoever may be writing. Writing opens the store as the service
//! does, lock included, does one thing through the use cases and closes it: what is queued then is
//! worked off when the service starts. Neither makes a file: a ledger no service will read is worse
//! than a refusal.

mod bulk;
mod effects;
mod keep;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::args::{EventFlags, OperationFlags, PageArgs, QueueFlags, Which};
use super::backup::with_backup;
use super::failure::Failure;
use super::output;
use crate::base::clock::{Clock, SystemClock};
use crate::base::ids::{Ids, RandomIds};
use crate::base::shutdown::Shutdown;
use crate::config::Settings;
use crate::domain::ledger::{CapturedEvent, Operation};
use crate::domain::operation::{JobKind, OperationName, OperationRef};
use crate::effects::plan::Undecided;
use crate::receive::{Receiver, Replayed};
use crate::store::{Binding, OpenError, OpenOptions, Page, Reader, Registered, Store};
use crate::verify::PathTokens;
use crate::work::{Policy, Registrar};

/// The metadata field that names a reservation, for providers that hand metadata back.
const ID_FIELD: &str = "hookledger_id";

/// The file named by `store.path`.
#[derive(Debug)]
pub(super) struct File {
    settings: Settings,
    /// The admin API answered, but refused our token.
    refused: bool,
}

/// The use cases over the opened store.
struct Writing {
    store: Store,
    registrar: Registrar,
    receiver: Receiver,
}

impl File {
    pub(super) const fn new(settings: Settings, refused: bool) -> Self {
        Self { settings, refused }
    }

    async fn reader(&self) -> Result<Reader, Failure> {
        if self.refused {
            output::note(&format!(
                "the admin API at {} refuses this token (admin.token); reading {} instead",
                self.settings.admin.listen,
                self.settings.store.path.display()
            ));
        }
        Ok(Reader::open(&self.settings.store.path).await?)
    }

    /// Opens the store, lets `act` write, and closes it whatever came of that.
    async fn write<T, F>(&self, act: impl FnOnce(Writing) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let settings = &self.settings;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ids: Arc<dyn Ids> = Arc::new(RandomIds::from_system());
        let group = Shutdown::new(Arc::clone(&clock));
        let options = OpenOptions {
            path: settings.store.path.clone(),
            create: false,
            readers: 1,
            max_waiting: settings.hooks.max_waiting,
            check_at_once: crate::store::CHECK_AT_ONCE,
        };
        let opened = Store::open(&options, Arc::clone(&clock), Arc::clone(&ids), &group).await;
        let store = opened.map_err(|error| self.explain(error))?;
        // The command's own rules are often not the service's: only the service's may decide.
        let registrar = Registrar::new(
            store.clone(),
            Arc::new(Undecided::new(settings.alerts.to.clone())),
            Arc::clone(&clock),
            Arc::clone(&ids),
            Policy::new(settings),
        );
        let receiver = Receiver::new(store.clone(), clock, ids, settings.hooks.dedupe_ttl);
        let end = act(Writing {
            store: store.clone(),
            registrar,
            receiver,
        })
        .await;
        store.close().await;
        group.drain(Duration::from_secs(5)).await;
        end
    }

    fn explain(&self, error: OpenError) -> Failure {
        let OpenError::InUse { path } = &error else {
            return with_backup(error, &self.settings);
        };
        let admin = self.settings.admin.listen;
        let why = if self.refused {
            "but its admin API refuses this token; set HOOKLEDGER_ADMIN_TOKEN (admin.token) to the \
             one it was started with"
                .to_owned()
        } else if self.settings.admin.best().is_none() {
            "so this must go through its admin API; set HOOKLEDGER_ADMIN_TOKEN (admin.token) to \
             the one it was started with"
                .to_owned()
        } else {
            format!(
                "but no admin API answers at {admin}; set HOOKLEDGER_ADMIN_LISTEN (admin.listen)"
            )
        };
        Failure::Unreachable(format!("a running hookledger holds {path}, {why}"))
    }

    pub(super) async fn register(
        &self,
        name: OperationName,
        job_kind: JobKind,
        user_metadata: Option<Value>,
    ) -> Result<Value, Failure> {
        self.write(|w| async move {
            match w.registrar.register(name, job_kind, user_metadata).await? {
                Registered::New(operation) | Registered::Same(operation) => document(&operation),
                Registered::Conflict(other) => Err(Failure::conflict(format!(
                    "this operation is registered with the job kind {other}"
                ))),
            }
        })
        .await
    }

    pub(super) async fn reserve(
        &self,
        job_kind: JobKind,
        user_metadata: Option<Value>,
    ) -> Result<Value, Failure> {
        let mut shown = match &user_metadata {
            Some(Value::Object(fields)) => fields.clone(),
            _ => Map::new(),
        };
        if shown.contains_key(ID_FIELD) {
            return Err(Failure::usage(format!(
                "user_metadata.{ID_FIELD} is written by hookledger; leave it out"
            )));
        }
        let Some(token) = &self.settings.hooks.path_token else {
            return Err(Failure::usage(
                "a reservation's URL is derived from hooks.path_token; set HOOK_PATH_TOKEN",
            ));
        };
        let tokens = PathTokens::new(token);
        let id = self
            .write(|w| async move { Ok(w.registrar.reserve(job_kind, user_metadata).await?) })
            .await?;
        shown.insert(ID_FIELD.to_owned(), Value::from(id.to_string()));
        let webhook_path = format!("/hooks/gemini/{}", tokens.mint_reservation(id));
        let mut reserved = json!({"id": id, "webhook_path": webhook_path, "user_metadata": shown});
        if let (Some(base), Some(fields)) =
            (&self.settings.server.public_url, reserved.as_object_mut())
        {
            let url = format!("{}{webhook_path}", base.as_str().trim_end_matches('/'));
            fields.insert("webhook_url".to_owned(), Value::from(url));
        }
        Ok(reserved)
    }

    pub(super) async fn bind(&self, id: Uuid, name: OperationName) -> Result<Value, Failure> {
        self.write(|w| async move {
            match w.registrar.bind(id, name).await? {
                Binding::Bound(operation) | Binding::Same(operation) => document(&operation),
                Binding::Unknown => Err(Failure::not_found("there is no reservation of this id")),
                Binding::Conflict(why) => Err(Failure::conflict(format!(
                    "the reservation cannot be bound: {why}"
                ))),
            }
        })
        .await
    }

    pub(super) async fn operations(
        &self,
        flags: &OperationFlags,
        page: &PageArgs,
    ) -> Result<Value, Failure> {
        let found = self
            .reader()
            .await?
            .operations(&flags.filter(), id_cursor(page)?, page.limit)
            .await?;
        paged("operations", &found)
    }

    pub(super) async fn operation(&self, which: &Which) -> Result<Value, Failure> {
        let reader = self.reader().await?;
        let operation = find(&reader, which).await?;
        let mut whole = document(&operation)?;
        let log = document(&reader.operation_log(operation.id).await?)?;
        let effects = document(&reader.effects_of(operation.id).await?)?;
        if let Some(fields) = whole.as_object_mut() {
            fields.insert("log".to_owned(), log);
            fields.insert("effects".to_owned(), effects);
        }
        Ok(whole)
    }

    pub(super) async fn retry_operation(&self, which: &Which) -> Result<Value, Failure> {
        let operation = find(&self.reader().await?, which).await?;
        if operation.name.is_none() {
            return Err(Failure::conflict(
                "the operation is reserved and has no name yet; bind it first",
            ));
        }
        self.write(|w| async move {
            if !w.registrar.retry(operation.id).await? {
                return Err(unknown_operation());
            }
            let now = w.store.operation(operation.id).await?;
            document(&now.ok_or_else(unknown_operation)?)
        })
        .await
    }

    pub(super) async fn events(
        &self,
        flags: &EventFlags,
        page: &PageArgs,
    ) -> Result<Value, Failure> {
        let reader = self.reader().await?;
        let mut filter = flags.words.filter();
        filter.segment = match flags.operation.as_deref() {
            None => None,
            Some(text) => match Uuid::try_parse(text) {
                Ok(id) => match find(&reader, &Which::Id(id)).await?.name {
                    Some(name) => Some(name.segment().to_owned()),
                    None => return Ok(json!({"events": [], "next_cursor": null})),
                },
                Err(_) => Some(
                    OperationRef::parse(text, None)
                        .ok_or_else(|| Failure::usage("--operation takes a name or a ledger id"))?
                        .segment()
                        .to_owned(),
                ),
            },
        };
        let found = reader.events(&filter, id_cursor(page)?, page.limit).await?;
        paged("events", &found)
    }

    pub(super) async fn event(&self, id: Uuid) -> Result<Value, Failure> {
        let event = self.reader().await?.event(id).await?;
        whole_event(event.ok_or_else(unknown_event)?)
    }

    pub(super) async fn replay(&self, id: Uuid) -> Result<Value, Failure> {
        self.write(|w| async move {
            match w.receiver.replay(id).await? {
                Replayed::Received(received) => {
                    Ok(json!({"event_id": received.event_id, "status": received.verdict}))
                }
                Replayed::Emptied => Err(Failure::conflict(
                    "the event's body was removed (store.body_retention); `operations retry` asks \
                     the API about its operation",
                )),
                Replayed::Unknown => Err(unknown_event()),
            }
        })
        .await
    }

    pub(super) async fn queue(
        &self,
        flags: &QueueFlags,
        page: &PageArgs,
    ) -> Result<Value, Failure> {
        let cursor = match &page.cursor {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| bad_cursor())?),
        };
        let found = self
            .reader()
            .await?
            .work_items(&flags.filter(), cursor, page.limit)
            .await?;
        paged("items", &found)
    }

    pub(super) async fn alerts(&self) -> Result<Value, Failure> {
        let open = self.reader().await?.open_alerts().await?;
        Ok(json!({"alerts": document(&open)?}))
    }
}

async fn find(reader: &Reader, which: &Which) -> Result<Operation, Failure> {
    let found = match which {
        Which::Id(id) => reader.operation(*id).await?,
        Which::Name(name) => reader.operation_by_name(name).await?,
    };
    found.ok_or_else(unknown_operation)
}

fn unknown_operation() -> Failure {
    Failure::not_found("the ledger has no operation of this name or id")
}

fn unknown_event() -> Failure {
    Failure::not_found("there is no captured event of this id; it may have been pruned")
}

fn bad_cursor() -> Failure {
    Failure::usage("--cursor takes what the page before printed")
}

fn id_cursor(page: &PageArgs) -> Result<Option<Uuid>, Failure> {
    page.cursor
        .as_deref()
        .map(|text| Uuid::try_parse(text).map_err(|_| bad_cursor()))
        .transpose()
}

fn document(record: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(record).map_err(|_| Failure::failed("a record is no JSON"))
}

fn paged<T: Serialize>(field: &str, page: &Page<T>) -> Result<Value, Failure> {
    Ok(json!({field: document(&page.items)?, "next_cursor": page.next_cursor}))
}

fn whole_event(event: CapturedEvent) -> Result<Value, Failure> {
    let mut whole = document(&event.record)?;
    let headers: Vec<Value> = event
        .headers
        .into_iter()
        .map(|(name, value)| {
            let value = String::from_utf8(value).map_or_else(
                |bytes| json!({"base64": data_encoding::BASE64.encode(bytes.as_bytes())}),
                Value::from,
            );
            json!([name, value])
        })
        .collect();
    if let Some(fields) = whole.as_object_mut() {
        let encoded = data_encoding::BASE64.encode(&event.body);
        fields.insert("headers".to_owned(), headers.into());
        fields.insert("body_base64".to_owned(), encoded.into());
        if let Ok(text) = String::from_utf8(event.body) {
            fields.insert("body".to_owned(), text.into());
        }
    }
    Ok(whole)
}
