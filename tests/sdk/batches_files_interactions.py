"""google-genai 3.6.1 against the simulator: batches, files, embeddings, interactions."""

import json
import os
import pathlib
import sys
import tempfile

from google import genai
from google.genai import errors, types

from harness import BASE, RECEIVER_PORT, Receiver, check, run_all, steer, wait_for

MODEL = "gemini-2.5-flash"
receiver = Receiver()


def client(**options):
    http_options = types.HttpOptions(base_url=BASE, **options)
    return genai.Client(api_key="test-key", http_options=http_options)


def ended(api, name):
    """The batch, once the SDK says that it has ended."""
    batch = lambda: api.batches.get(name=name)
    return wait_for(lambda: (b := batch()).done and b)


def inline_request(text, key=None):
    request = {"contents": [{"parts": [{"text": text}], "role": "user"}]}
    if key:
        request["metadata"] = {"key": key}
    return request


def refused(code, call):
    try:
        call()
    except errors.APIError as error:
        assert error.code == code, error
        return error
    raise AssertionError(f"not refused with {code}")


@check
def an_inline_batch_succeeds_and_is_told():
    for version in (None, "v1beta"):
        api = client(**({"api_version": version} if version else {}))
        requests = [inline_request("hi", "k1"), inline_request("two", "k2")]
        made = api.batches.create(model=MODEL, src=requests, config={"display_name": "t"})
        assert made.state.name == "JOB_STATE_PENDING", made.state
        assert made.display_name == "t"
        done = ended(api, made.name)
        assert done.state.name == "JOB_STATE_SUCCEEDED", done.state
        answers = {
            answer.metadata["key"]: answer.response.text for answer in done.dest.inlined_responses
        }
        assert answers == {"k1": "echo: hi", "k2": "echo: two"}, answers
        _, event = receiver.about(made.name)
        assert event["type"] == "batch.succeeded", event
    asked = {r["path"].split("/")[1] for r in steer("GET", "requests")["requests"]}
    assert asked >= {"v1", "v1beta"}, asked


@check
def a_file_batch_answers_in_a_file_with_the_same_keys():
    api = client()
    prompts = {f"key-{i}": f"prompt {i}" for i in range(5)}
    lines = [json.dumps({"key": k, "request": inline_request(p)}) for k, p in prompts.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "input.jsonl"
        path.write_text("\n".join(lines) + "\n")
        config = types.UploadFileConfig(mime_type="application/jsonl", display_name="in")
        uploaded = api.files.upload(file=path, config=config)
        assert uploaded.size_bytes == path.stat().st_size
    assert uploaded.state.name == "ACTIVE" and uploaded.display_name == "in"
    made = api.batches.create(model=MODEL, src=uploaded.name)
    done = ended(api, made.name)
    result = done.dest.file_name
    assert result == made.name.replace("batches/", "files/batch-"), result
    answers = {}
    for line in api.files.download(file=result).decode().splitlines():
        row = json.loads(line)
        parts = row["response"]["candidates"][0]["content"]["parts"]
        answers[row["key"]] = parts[0]["text"]
    assert answers == {k: f"echo: {p}" for k, p in prompts.items()}, answers
    _, event = receiver.about(made.name)
    assert event["data"]["output_file_uri"] == result
    api.files.delete(name=uploaded.name)
    refused(403, lambda: api.files.get(name=uploaded.name))


@check
def a_large_file_is_uploaded_in_pieces():
    api = client()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "large.bin"
        path.write_bytes(os.urandom(20 * 1024 * 1024))
        config = types.UploadFileConfig(mime_type="application/octet-stream")
        uploaded = api.files.upload(file=path, config=config)
    assert uploaded.size_bytes == 20 * 1024 * 1024, uploaded.size_bytes
    names = [file.name for file in api.files.list()]
    assert uploaded.name in names, names


@check
def embeddings_come_back_as_vectors():
    api = client()
    contents = [{"parts": [{"text": text}], "role": "user"} for text in ("a", "b")]
    src = types.EmbeddingsBatchJobSource(
        inlined_requests=types.EmbedContentBatch(contents=contents)
    )
    made = api.batches.create_embeddings(model="gemini-embedding-001", src=src)
    done = ended(api, made.name)
    vectors = [
        answer.response.embedding.values for answer in done.dest.inlined_embed_content_responses
    ]
    assert len(vectors) == 2 and vectors[0] != vectors[1], vectors


@check
def a_batch_with_its_own_webhook_is_told_there_with_its_metadata():
    api = client()
    own = f"http://127.0.0.1:{RECEIVER_PORT}/own"
    config = types.CreateBatchJobConfig(
        webhook_config=types.WebhookConfig(uris=[own], user_metadata={"job": "42"})
    )
    made = api.batches.create(model=MODEL, src=[inline_request("hi")], config=config)
    path, event = receiver.about(made.name)
    assert path == "/own", path
    assert event["user_metadata"] == {"job": "42"}, event


@check
def batches_are_listed_cancelled_and_deleted():
    api = client()
    made = [api.batches.create(model=MODEL, src=[inline_request("x")]).name for _ in range(3)]
    listed = [b.name for b in api.batches.list(config={"page_size": 2})]
    assert listed[:3] == made[::-1], listed
    api.batches.cancel(name=made[0])
    assert api.batches.get(name=made[0]).state.name == "JOB_STATE_CANCELLED"
    api.batches.delete(name=made[0])
    refused(404, lambda: api.batches.get(name=made[0]))


@check
def every_ending_of_a_batch_is_understood():
    api = client()
    for outcome in ("failed", "cancelled", "expired"):
        job = {"kind": "batch", "outcome": outcome, "complete_after_ms": 0}
        name = steer("POST", "operations", job)["name"]
        state = api.batches.get(name=name).state.name
        assert state == f"JOB_STATE_{outcome.upper()}", state


@check
def the_environment_alone_points_the_client_here():
    os.environ["GOOGLE_GEMINI_BASE_URL"] = BASE
    os.environ["GEMINI_API_KEY"] = "test-key"
    try:
        api = genai.Client()
        made = api.batches.create(model=MODEL, src=[inline_request("hi")])
        assert made.name.startswith("batches/")
    finally:
        del os.environ["GOOGLE_GEMINI_BASE_URL"], os.environ["GEMINI_API_KEY"]


@check
def a_key_that_is_refused_is_an_error_of_the_client():
    # Held by a name: the SDK closes a client that nobody holds, in the middle of its call.
    api = client()
    steer("POST", "faults", {"fault": "key_invalid"})
    error = refused(400, lambda: api.batches.get(name="batches/" + "a" * 36))
    assert "API key not valid" in str(error), error


@check
def an_outage_is_survived_by_the_clients_own_retries():
    api = client(retry_options=types.HttpRetryOptions(attempts=3, initial_delay=0.1))
    made = api.batches.create(model=MODEL, src=[inline_request("x")])
    steer("POST", "faults", {"fault": "unavailable", "count": 2, "name": made.name})
    assert api.batches.get(name=made.name).name == made.name


@check
def an_interaction_completes_and_is_told():
    api = client()
    made = api.interactions.create(model=MODEL, input="hi", background=True, store=True)
    assert made.status == "in_progress", made
    assert made.id.startswith("v1_")
    done = wait_for(
        lambda: (i := api.interactions.get(id=made.id)).status == "completed" and i
    )
    assert done.steps[0].content[0].text == "echo: hi", done
    _, event = receiver.about(made.id)
    assert event["type"] == "interaction.completed", event


@check
def an_interaction_is_cancelled_and_deleted():
    api = client()
    made = api.interactions.create(model=MODEL, input="hi", background=True, store=True)
    assert api.interactions.cancel(id=made.id).status == "cancelled"
    api.interactions.delete(id=made.id)
    try:
        api.interactions.get(id=made.id)
    except Exception as error:
        assert getattr(error, "status_code", getattr(error, "code", None)) == 404, repr(error)
    else:
        raise AssertionError("a deleted interaction was found")


@check
def every_ending_of_an_interaction_is_understood():
    api = client()
    for outcome in ("failed", "requires_action", "incomplete", "budget_exceeded"):
        job = {"kind": "interaction", "outcome": outcome, "complete_after_ms": 0}
        name = steer("POST", "operations", job)["name"]
        got = api.interactions.get(id=name.removeprefix("interactions/"))
        assert got.status == outcome, got


@check
def no_event_was_badly_signed():
    assert receiver.refused == [], receiver.refused


if __name__ == "__main__":
    sys.exit(run_all())
