//! Requests with a key: begun before anything is done for them, answered after.
//!
//! The two writes are not one transaction with what the request does, so a process that dies between
//! them leaves a row without an answer: [`Begun::Unfinished`] from then on, because whether it was
//! done is not known and doing it twice is what the key forbids. Rows go when their day is over; at
//! most [`MOST`] are kept, counted by the span of their ids, which no count has to walk.

use std::time::Duration;

use sqlx::{Row, SqliteConnection};

use super::super::Store;
use super::super::error::StoreError;
use super::write::Lane;
use crate::base::clock::Timestamp;

/// Most rows there are.
const MOST: i64 = 100_000;

/// Who asks, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRequest {
    /// The name of the token it came with; each has keys of its own.
    pub token: String,
    /// The key.
    pub key: String,
    /// What tells this request from another.
    pub fingerprint: String,
}

/// An answer, to be given again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// Its status.
    pub status: u16,
    /// Its type.
    pub content_type: Option<String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nothing; it is the caller's to carry out now.
    New,
    /// The same request was answered so.
    Answered(KeptAnswer),
    /// It stands for another request.
    Other,
    /// The same request was begun and never answered.
    Unfinished,
    /// No more keys are taken.
    Full,
}

impl Store {
    /// Looks a key up, and takes it for `keep` when it is new.
    pub async fn begin_request(
        &self,
        request: KeyedRequest,
        keep: Duration,
    ) -> Result<Begun, StoreError> {
        let now = self.clock.now();
        self.writer
            .write("begin request", Lane::Normal, move |connection| {
                Box::pin(async move { begin(connection, request, now, now.after(keep)).await })
            })
            .await
    }

    /// Writes the answer down; without one the key is free again.
    pub async fn end_request(
        &self,
        request: KeyedRequest,
        answer: Option<KeptAnswer>,
    ) -> Result<(), StoreError> {
        self.writer
            .write("end request", Lane::Normal, move |connection| {
                Box::pin(async move { end(connection, request, answer).await })
            })
            .await
    }
}

async fn begin(
    connection: &mut SqliteConnection,
    request: KeyedRequest,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<Begun, StoreError> {
    sqlx::query("DELETE FROM requests WHERE token = ?1 AND key = ?2 AND expires_at_ms <= ?3")
        .bind(&request.token)
        .bind(&request.key)
        .bind(now.as_millis())
        .execute(&mut *connection)
        .await?;
    let known = sqlx::query(
        "SELECT fingerprint, status, content_type, answer FROM requests WHERE token = ?1 AND key = ?2",
    )
    .bind(&request.token)
    .bind(&request.key)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(row) = known {
        if row.get::<String, _>("fingerprint") != request.fingerprint {
            return Ok(Begun::Other);
        }
        let Some(status) = row.get::<Option<i64>, _>("status") else {
            return Ok(Begun::Unfinished);
        };
        return Ok(Begun::Answered(KeptAnswer {
            status: u16::try_from(status).unwrap_or(500),
            content_type: row.get("content_type"),
            body: row.get("answer"),
        }));
    }
    let span: Option<i64> = sqlx::query_scalar(
        "SELECT (SELECT max(id) FROM requests) - (SELECT min(id) FROM requests)",
    )
    .fetch_one(&mut *connection)
    .await?;
    if span.is_some_and(|span| span >= MOST) {
        return Ok(Begun::Full);
    }
    sqlx::query(
        "INSERT INTO requests (token, key, fingerprint, expires_at_ms) VALUES (?1, ?2, ?3, ?4)",
    )
    .bind(&request.token)
    .bind(&request.key)
    .bind(&request.fingerprint)
    .bind(expires_at.as_millis())
    .execute(connection)
    .await?;
    Ok(Begun::New)
}

async fn end(
    connection: &mut SqliteConnection,
    request: KeyedRequest,
    answer: Option<KeptAnswer>,
) -> Result<(), StoreError> {
    let Some(answer) = answer else {
        sqlx::query("DELETE FROM requests WHERE token = ?1 AND key = ?2 AND fingerprint = ?3")
            .bind(&request.token)
            .bind(&request.key)
            .bind(&request.fingerprint)
            .execute(connection)
            .await?;
        return Ok(());
    };
    sqlx::query(
        "UPDATE requests SET status = ?4, content_type = ?5, answer = ?6 \
         WHERE token = ?1 AND key = ?2 AND fingerprint = ?3",
    )
    .bind(&request.token)
    .bind(&request.key)
    .bind(&request.fingerprint)
    .bind(i64::from(answer.status))
    .bind(answer.content_type)
    .bind(answer.body)
    .execute(connection)
    .await?;
    Ok(())
}
