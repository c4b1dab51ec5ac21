"""Deliveries signed by the official Python library of Standard Webhooks reach a running service."""

import json
import os
import sys
import urllib.error
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone

from standardwebhooks import Webhook

from harness import check, run_all

URL = os.environ["SERVICE_URL"]
SECRETS = os.environ["SERVICE_SECRETS"].split(",")
FOREIGN = "whsec_" + "c3RyYW5nZXI" * 4


def event(text="done"):
    name = f"batches/{uuid.uuid4().hex}"
    return json.dumps(
        {"type": "batch.succeeded", "data": {"id": name, "note": text}}, ensure_ascii=False
    )


def post(body, message, at, signature):
    headers = {
        "content-type": "application/json",
        "webhook-id": message,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }
    request = urllib.request.Request(URL, data=body.encode(), headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)["status"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["code"]


def now():
    return datetime.now(tz=timezone.utc)


def signed(secret, body, message=None, at=None):
    message, at = message or f"py_{uuid.uuid4().hex}", at or now()
    return body, message, at, Webhook(secret).sign(message, at, body)


@check
def python_every_form_of_a_secret_signs_what_is_accepted():
    assert len(SECRETS) == 4, len(SECRETS)
    for secret in SECRETS[:3]:
        bare = secret.removeprefix("whsec_")
        for spelled in (bare, f"whsec_{bare}"):
            answer = post(*signed(spelled, event()))
            assert answer == (200, "accepted"), (len(secret), answer)


@check
def python_ids_and_bodies_of_every_kind_are_accepted_once():
    for message in (f"msg_{uuid.uuid4().hex}", str(uuid.uuid4()), f"evt:{uuid.uuid4()}/1~+="):
        for text in ("plain", "grüße, 世界 🎉", "tab\t and \u2028 and \\u0000", ""):
            sent = signed(SECRETS[0], event(text), f"{message}-{len(text)}")
            assert post(*sent) == (200, "accepted"), (message, text)
            assert post(*sent) == (200, "duplicate"), (message, text)


@check
def python_one_good_signature_of_several_is_enough():
    body, message, at, good = signed(SECRETS[1], event())
    foreign = Webhook(FOREIGN).sign(message, at, body)
    assert post(body, message, at, f"{foreign} v1a,AAAA {good}") == (200, "accepted")
    body, message, at, _ = signed(SECRETS[1], event())
    foreign = Webhook(FOREIGN).sign(message, at, body)
    assert post(body, message, at, foreign) == (401, "unauthorized")


@check
def python_a_changed_byte_is_refused():
    body, message, at, signature = signed(SECRETS[0], event())
    later = at + timedelta(seconds=1)
    for changed in (
        (body.replace("done", "Done"), message, at, signature),
        (body + " ", message, at, signature),
        (body, message + "x", at, signature),
        (body, message, later, signature),
        (body, message, at, signature.replace("v1,", "v2,")),
    ):
        assert post(*changed) == (401, "unauthorized"), changed[1:]
    assert post(body, message, at, signature) == (200, "accepted")


@check
def python_stale_and_early_ones_are_refused():
    for minutes in (-6, 6):
        sent = signed(SECRETS[0], event(), at=now() + timedelta(minutes=minutes))
        assert post(*sent) == (401, "unauthorized"), minutes


sys.exit(run_all())
