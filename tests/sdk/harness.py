"""Shared by the SDK scripts: named checks, a webhook receiver that verifies, the control API."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import threading
import time
import traceback
import urllib.request

BASE = os.environ["SIMULATOR_URL"]
RECEIVER_PORT = int(os.environ["RECEIVER_PORT"])
WEBHOOK_SECRET = os.environ["WEBHOOK_SECRET"]
SHARED_SECRET = os.environ["SHARED_SECRET"]

_checks = []


def check(function):
    """Registers a check; the report shows its name."""
    _checks.append(function)
    return function


def run_all():
    """Runs every check, prints one line each, and returns the exit code."""
    failed = 0
    for function in _checks:
        try:
            function()
            print(f"ok {function.__name__}", flush=True)
        except Exception:  # a failing check must not hide the others
            failed += 1
            print(f"FAILED {function.__name__}", flush=True)
            traceback.print_exc()
    return 1 if failed else 0


def wait_for(what, seconds=15):
    """Asks until the answer is true and returns it."""
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.1)


def steer(method, path, body=None):
    """Calls the control API."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{BASE}/_sim/{path}", data=data, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


class Receiver:
    """Takes webhooks and keeps those whose signature and shared secret are right."""

    def __init__(self):
        self.events = []
        self.refused = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                good = receiver.verifies(self.headers, body)
                kept = receiver.events if good else receiver.refused
                kept.append((self.path, json.loads(body)))
                self.send_response(200 if good else 401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        address = ("127.0.0.1", RECEIVER_PORT)
        self.server = http.server.ThreadingHTTPServer(address, Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def verifies(headers, body):
        key = base64.b64decode(WEBHOOK_SECRET.removeprefix("whsec_"))
        stamp = headers["webhook-timestamp"]
        signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
        tag = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        fresh = abs(time.time() - int(stamp)) < 300
        shared = headers["x-hook-secret"] == SHARED_SECRET
        return fresh and shared and f"v1,{tag}" in headers["webhook-signature"].split(" ")

    def about(self, operation):
        """The event that names this operation, once it is here."""
        found = lambda: [e for e in self.events if e[1]["data"]["id"] == operation]
        return wait_for(found)[0]
