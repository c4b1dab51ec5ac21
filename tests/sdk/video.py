"""google-genai 2.34.0 against the simulator: videos. Version 3 refuses to start one."""

import sys

from google import genai
from google.genai import types

from harness import BASE, RECEIVER_PORT, Receiver, check, run_all, steer, wait_for

MODEL = "veo-3.1-generate-preview"
receiver = Receiver()
api = genai.Client(api_key="test-key", http_options=types.HttpOptions(base_url=BASE))


def ended(operation):
    """The operation, once the SDK says that it is done."""
    return wait_for(lambda: (o := api.operations.get(operation)).done and o)


def simulated(**job):
    """A video made by hand that is over at once, as the SDK knows it by name."""
    job = {"kind": "video", "complete_after_ms": 0, **job}
    name = steer("POST", "operations", job)["name"]
    return types.GenerateVideosOperation(name=name)


@check
def a_video_is_generated_told_and_downloaded():
    config = types.GenerateVideosConfig(duration_seconds=8, aspect_ratio="16:9")
    started = api.models.generate_videos(model=MODEL, prompt="a cat", config=config)
    assert started.name.startswith(f"models/{MODEL}/operations/"), started.name
    assert not started.done
    done = ended(started)
    (sample,) = done.response.generated_videos
    host = "https://generativelanguage.googleapis.com/v1beta/files/"
    assert sample.video.uri.startswith(host), sample.video.uri
    data = api.files.download(file=sample.video)
    assert data[4:12] == b"ftypmp42" and data.endswith(b"a cat"), data
    _, event = receiver.about(started.name)
    assert event["type"] == "video.generated", event
    assert event["data"]["output_file_uri"] == sample.video.uri


@check
def a_video_with_its_own_webhook_is_told_there():
    own = f"http://127.0.0.1:{RECEIVER_PORT}/own"
    hook = types.WebhookConfig(uris=[own], user_metadata={"job": "7"})
    config = types.GenerateVideosConfig(webhook_config=hook)
    started = api.models.generate_videos(model=MODEL, prompt="a dog", config=config)
    path, event = receiver.about(started.name)
    assert path == "/own" and event["user_metadata"] == {"job": "7"}, (path, event)


@check
def a_running_video_is_only_a_name():
    running = api.operations.get(simulated(complete_after_ms=3_600_000))
    assert not running.done and running.response is None


@check
def a_filtered_video_has_reasons_and_no_sample():
    done = api.operations.get(simulated(outcome="filtered"))
    assert done.done and not done.response.generated_videos
    assert done.response.rai_media_filtered_count == 1
    assert "filter" in done.response.rai_media_filtered_reasons[0]


@check
def a_failed_video_has_an_error():
    done = api.operations.get(simulated(outcome="failed"))
    assert done.done and done.response is None
    assert done.error["code"] == 13, done.error


@check
def a_video_may_be_done_with_neither():
    done = api.operations.get(simulated(outcome="neither"))
    assert done.done and done.response is None and done.error is None


@check
def failed_and_filtered_videos_are_told_to_nobody():
    quiet = [d for d in steer("GET", "deliveries")["deliveries"] if d["type"] != "video.generated"]
    assert all(not d["type"].startswith("video.") for d in quiet), quiet
    assert receiver.refused == [], receiver.refused


if __name__ == "__main__":
    sys.exit(run_all())
