"""google-genai 3.6.1 against the simulator: a registered webhook from its making to its end."""

import sys

from google import genai
from google.genai import types

from harness import BASE, RECEIVER_PORT, Receiver, check, run_all, steer

receiver = Receiver()
PATH = "/hooks/registered"
URI = f"http://127.0.0.1:{RECEIVER_PORT}{PATH}"


def client(**options):
    return genai.Client(
        api_key="test-key", http_options=types.HttpOptions(base_url=BASE, **options)
    )


def made(api, **fields):
    hook = api.webhooks.create(
        **{"name": "wh", "uri": URI, "subscribed_events": ["batch.succeeded"], **fields}
    )
    receiver.secrets[PATH] = [hook.new_signing_secret]
    return hook


def ended_batch():
    return steer("POST", "operations", {"kind": "batch", "complete_after_ms": 0})["name"]


def last_signatures():
    return [given for path, given in receiver.signatures if path == PATH][-1].split(" ")


def refused(call):
    try:
        call()
    except Exception as error:  # the SDK has no one class for it
        return error
    raise AssertionError("not refused")


@check
def a_webhook_is_created_listed_and_shown_under_both_versions():
    for version in (None, "v1beta"):
        api = client(**({"api_version": version} if version else {}))
        hook = made(api)
        assert hook.state == "enabled", hook
        assert hook.new_signing_secret.startswith("whsec_"), "no secret"
        assert hook.id in [one.id for one in api.webhooks.list().webhooks]
        shown = api.webhooks.get(id=hook.id)
        assert shown.new_signing_secret is None, "the secret was shown again"
        tail = hook.new_signing_secret[-4:]
        assert shown.signing_secrets[0].truncated_secret == f"whsec_...{tail}"
        assert shown.create_time is not None, shown
        api.webhooks.delete(id=hook.id)
        refused(lambda: api.webhooks.get(id=hook.id))


@check
def pages_follow_each_other():
    api = client()
    hooks = [made(api, name=f"page {i}") for i in range(3)]
    first = api.webhooks.list(page_size=2)
    assert len(first.webhooks) == 2 and first.next_page_token, first
    rest = api.webhooks.list(page_size=2, page_token=first.next_page_token)
    listed = {hook.id for hook in first.webhooks + rest.webhooks}
    assert listed == {hook.id for hook in hooks}, listed
    for hook in hooks:
        api.webhooks.delete(id=hook.id)


@check
def an_update_changes_what_it_names():
    api = client()
    hook = made(api)
    changed = api.webhooks.update(
        id=hook.id, uri=f"{URI}/2", subscribed_events=["video.generated"], state="disabled"
    )
    assert (changed.uri, changed.state) == (f"{URI}/2", "disabled"), changed
    assert changed.subscribed_events == ["video.generated"], changed
    assert changed.name == "wh", changed
    masked = api.webhooks.update(id=hook.id, update_mask="name", name="other", uri=URI)
    assert (masked.name, masked.uri) == ("other", f"{URI}/2"), masked
    assert api.webhooks.update(id=hook.id, state="enabled").state == "enabled"
    api.webhooks.delete(id=hook.id)


@check
def an_event_that_does_not_exist_is_refused():
    api = client()
    error = refused(lambda: made(api, subscribed_events=["batch.nonsense"]))
    assert "400" in str(error) or getattr(error, "status_code", None) == 400, repr(error)


@check
def a_ping_and_an_event_arrive_with_the_webhooks_own_signature():
    api = client()
    hook = made(api)
    api.webhooks.ping(id=hook.id)
    _, event = receiver.at(PATH, hook.id)
    assert event["type"] == "webhook.ping", event
    batch = ended_batch()
    _, event = receiver.at(PATH, batch)
    assert event["type"] == "batch.succeeded", event
    api.webhooks.delete(id=hook.id)


@check
def a_rotated_webhook_signs_with_both_secrets_or_the_new_one_alone():
    api = client()
    hook = made(api)
    for behaviour, count in (
        ("revoke_previous_secrets_after_h24", 2),
        ("revoke_previous_secrets_immediately", 1),
    ):
        fresh = api.webhooks.rotate_signing_secret(id=hook.id, revocation_behavior=behaviour)
        assert fresh.secret.startswith("whsec_"), "no secret"
        # Only the new one is accepted from here on.
        receiver.secrets[PATH] = [fresh.secret]
        shown = api.webhooks.get(id=hook.id).signing_secrets
        assert len(shown) == count, shown
        receiver.at(PATH, ended_batch())
        assert len(last_signatures()) == count, last_signatures()
    api.webhooks.delete(id=hook.id)


sys.exit(run_all())
