"""The plain design that hookledger descends from, written as well as its shape allows.

One connection of sqlite3 per request, the path token and the secret header by hmac.compare_digest,
INSERT OR IGNORE into a dedupe table, an insert into a queue table, both in one transaction that is on
disk (WAL, synchronous=FULL) before the answer. One worker of uvicorn: more of them would only wait for
SQLite's one write lock in each other's way. The handler writes on the event loop itself, since threads
would only queue for the same lock, and SQLite's queue is slower than the loop's.

A worker that drains the queue is not part of it; none of the others has one running either while the
receive path is measured.
"""

import hmac
import json
import os
import sqlite3
import time

from fastapi import FastAPI, Request, Response

PATH_TOKEN = os.environ["HOOK_PATH_TOKEN"]
SHARED_SECRET = os.environ["HOOK_SHARED_SECRET"]
DB = os.environ["HOOK_DB"]
MAX_BODY = 256 * 1024

app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)


def connect() -> sqlite3.Connection:
    connection = sqlite3.connect(DB, timeout=30, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def prepare() -> None:
    connection = connect()
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(
        """
        CREATE TABLE IF NOT EXISTS processed_events (
            webhook_id TEXT PRIMARY KEY, received_at REAL NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS work_queue (
            id INTEGER PRIMARY KEY, operation TEXT NOT NULL, body BLOB NOT NULL,
            state TEXT NOT NULL DEFAULT 'ready', created_at REAL NOT NULL
        );
        CREATE INDEX IF NOT EXISTS work_queue_ready ON work_queue (created_at) WHERE state = 'ready';
        """
    )
    journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
    synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    print(f"journal_mode={journal} synchronous={synchronous}", flush=True)
    connection.close()


prepare()


@app.post("/hooks/gemini/{token}")
async def receive(token: str, request: Request) -> Response:
    if not hmac.compare_digest(token.encode(), PATH_TOKEN.encode()):
        return Response(status_code=404)
    secret = request.headers.get("x-hook-secret", "")
    if not hmac.compare_digest(secret.encode(), SHARED_SECRET.encode()):
        return Response(status_code=401)
    body = await request.body()
    if len(body) > MAX_BODY:
        return Response(status_code=413)
    webhook_id = request.headers.get("webhook-id")
    try:
        operation = json.loads(body)["data"]["id"]
    except (ValueError, KeyError, TypeError):
        return Response(status_code=400)
    if not webhook_id or not isinstance(operation, str):
        return Response(status_code=400)
    now = time.time()
    connection = connect()
    try:
        connection.execute("BEGIN IMMEDIATE")
        new = connection.execute(
            "INSERT OR IGNORE INTO processed_events (webhook_id, received_at) VALUES (?, ?)",
            (webhook_id, now),
        )
        if new.rowcount == 1:
            connection.execute(
                "INSERT INTO work_queue (operation, body, created_at) VALUES (?, ?, ?)",
                (operation, body, now),
            )
        connection.execute("COMMIT")
    finally:
        connection.close()
    word = b"accepted" if new.rowcount == 1 else b"duplicate"
    return Response(b'{"status":"' + word + b'"}', media_type="application/json")
