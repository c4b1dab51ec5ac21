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


def unpadded(text):
    """The bytes behind base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def token_claims(token):
    """The claims of a token that a published key signed (RS256), else nothing."""
    signed, _, signature = token.rpartition(".")
    head, _, claims = signed.partition(".")
    head = json.loads(unpadded(head))
    with urllib.request.urlopen(f"{BASE}/.well-known/jwks.json", timeout=10) as answer:
        keys = {key["kid"]: key for key in json.load(answer)["keys"]}
    key = keys.get(head["kid"])
    if head["alg"] != "RS256" or key is None:
        return None
    modulus, exponent = (int.from_bytes(unpadded(key[part]), "big") for part in "ne")
    size = (modulus.bit_length() + 7) // 8
    opened = pow(int.from_bytes(unpadded(signature), "big"), exponent, modulus)
    # PKCS #1 v1.5: padding, the name of SHA-256, the digest.
    name = bytes.fromhex("3031300d060960864801650304020105000420")
    tail = name + hashlib.sha256(signed.encode()).digest()
    expected = b"\x00\x01" + b"\xff" * (size - 3 - len(tail)) + b"\x00" + tail
    return json.loads(unpadded(claims)) if opened.to_bytes(size, "big") == expected else None


class Receiver:
    """Takes webhooks and keeps those whose signature and shared secret are right."""

    def __init__(self):
        self.events = []
        self.refused = []
        # The secrets of the registered webhooks by their path; elsewhere the configured one.
        self.secrets = {}
        self.signatures = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                good = receiver.verifies(self.path, self.headers, body)
                receiver.signatures.append((self.path, self.headers["webhook-signature"]))
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

    def verifies(self, path, headers, body):
        stamp, given = headers["webhook-timestamp"], headers["webhook-signature"]
        fresh = abs(time.time() - int(stamp)) < 300
        if not fresh or headers["x-hook-secret"] != SHARED_SECRET:
            return False
        if not given.startswith("v1,"):
            claims = token_claims(given)
            return claims is not None and claims["iat"] <= time.time() < claims["exp"]
        signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
        for secret in self.secrets.get(path, [WEBHOOK_SECRET]):
            key = base64.b64decode(secret.removeprefix("whsec_"))
            tag = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
            if f"v1,{tag}" in given.split(" "):
                return True
        return False

    def about(self, operation):
        """The event that names this operation, once it is here."""
        return self.at(None, operation)

    def at(self, path, subject):
        """The event that names this subject and came to this path, once it is here."""
        return wait_for(
            lambda: [
                event
                for event in self.events
                if path in (None, event[0]) and event[1]["data"]["id"] == subject
            ]
        )[0]
