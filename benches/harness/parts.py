"""The processes that are measured, and the ones that measure."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

PATH_TOKEN = "bench-path-token-5d1f0c6a9b3e7284"
SHARED = "bench-shared-secret-0a9b8c7d6e5f4321"
ADMIN = "bench-admin-token-1357902468acebdf"
SIGNING = "whsec_YmVuY2gtc2lnbmluZy1zZWNyZXQtb2YtMzItYnl0ZXM="
HOOK = f"/hooks/gemini/{PATH_TOKEN}"
# What Gemini shows of a batch that has succeeded, without a name: one answer for all of them.
BATCH = {
    "metadata": {
        "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
        "model": "models/gemini-2.5-flash",
        "displayName": "nightly",
        "output": {"responsesFile": "files/batch-abcdefghijklmnop"},
        "createTime": "2026-01-22T11:00:00Z",
        "endTime": "2026-01-22T11:59:00Z",
        "batchStats": {"requestCount": "100", "successfulRequestCount": "100"},
        "state": "BATCH_STATE_SUCCEEDED",
    },
    "done": True,
    "response": {"responsesFile": "files/batch-abcdefghijklmnop"},
}


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Process:
    """One contestant; its standard error goes to a file."""

    def __init__(self, command, log, env=None):
        self.log = Path(log)
        self.began = time.perf_counter()
        with open(log, "wb") as out:
            self.child = subprocess.Popen(
                [str(part) for part in command],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )

    def accepts(self, at, patience=120):
        """Waits until it accepts connections; answers how long that took since it was started."""
        until = time.perf_counter() + patience
        while time.perf_counter() < until:
            if self.child.poll() is not None:
                raise RuntimeError(f"it ended: {self.log.read_text()[-2000:]}")
            try:
                socket.create_connection(("127.0.0.1", at), timeout=1).close()
                return time.perf_counter() - self.began
            except OSError:
                time.sleep(0.01)
        raise RuntimeError("it does not accept connections")

    def listening(self):
        """The port a part of the harness says that it listens on."""
        for _ in range(1000):
            found = re.search(r"listening on \S+:(\d+)", self.log.read_text())
            if found:
                return int(found[1])
            if self.child.poll() is not None:
                raise RuntimeError(f"it ended: {self.log.read_text()[-2000:]}")
            time.sleep(0.01)
        raise RuntimeError("it does not listen")

    def resident_mib(self):
        for line in Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, how=signal.SIGTERM):
        if self.child.poll() is None:
            self.child.send_signal(how)
            try:
                self.child.wait(60)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Service(Process):
    """hookledger on a file, with the defaults but for what is named here."""

    def __init__(self, place, db, api=None, effects_to=None, under=(), settings=""):
        self.port, self.admin, self.db = port(), port(), Path(db)
        lines = [
            "[server]", f'listen = "127.0.0.1:{self.port}"',
            "[admin]", f'listen = "127.0.0.1:{self.admin}"', f'token = "{ADMIN}"',
            "[hooks]", f'path_token = "{PATH_TOKEN}"', f'shared_secret = "{SHARED}"',
            "[sources.gemini]", f'signing_secrets = ["{SIGNING}"]',
            "[store]", f'path = "{db}"',
        ]
        if api:
            lines += ["[gemini]", f'base_url = "{api}"', 'api_key = "bench-api-key"']
        if effects_to:
            lines += ["[[effects]]", 'name = "notify"', 'kind = "http"', f'url = "{effects_to}"', "allow_private = true"]
        self.config = place.work / f"{place.unique('service')}.toml"
        self.config.write_text("\n".join(lines) + "\n" + settings)
        command = [*under, place.service, "--config", self.config, "serve"]
        super().__init__(command, self.config.with_suffix(".log"))

    def metrics(self):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.admin}/metrics", headers={"authorization": f"Bearer {ADMIN}"}
        )
        found = {}
        for line in urllib.request.urlopen(request, timeout=30).read().decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                found[name] = float(value)
        return found

    def commits(self):
        return self.metrics().get("hookledger_commits_total", 0.0)


class Null(Process):
    def __init__(self, place):
        self.port = port()
        config = place.work / f"{place.unique('null')}.toml"
        config.write_text(
            f'[server]\nlisten = "127.0.0.1:{self.port}"\n[hooks]\npath_token = "{PATH_TOKEN}"\n'
            f'shared_secret = "{SHARED}"\n[sources.gemini]\nsigning_secrets = ["{SIGNING}"]\n'
        )
        super().__init__([place.bench, "null", "--config", config], config.with_suffix(".log"))


class Bare(Process):
    def __init__(self, place):
        super().__init__([place.bench, "bare"], place.work / f"{place.unique('bare')}.log")
        self.port = self.listening()


class FastApi(Process):
    def __init__(self, place, db):
        self.port, self.db = port(), Path(db)
        env = {"HOOK_PATH_TOKEN": PATH_TOKEN, "HOOK_SHARED_SECRET": SHARED, "HOOK_DB": str(db)}
        uvicorn = place.venv / "bin" / "uvicorn"
        command = [
            uvicorn, "app:app", "--app-dir", place.root / "benches" / "baseline", "--port", self.port,
            "--workers", "1", "--no-access-log", "--log-level", "warning",
        ]
        super().__init__(command, place.work / f"{place.unique('fastapi')}.log", env)


class DebianWebhook(Process):
    """The package runs a command for each hook and answers at once; the cheapest command is `true`."""

    def __init__(self, place):
        self.port = port()
        rule = {"match": {"type": "value", "value": SHARED, "parameter": {"source": "header", "name": "X-Hook-Secret"}}}
        hooks = place.work / f"{place.unique('webhook')}.json"
        hook = {"id": f"gemini/{PATH_TOKEN}", "execute-command": "/bin/true", "trigger-rule": rule,
                "trigger-rule-mismatch-http-response-code": 401, "http-methods": ["POST"]}
        hooks.write_text(json.dumps([hook]))
        command = ["webhook", "-hooks", hooks, "-ip", "127.0.0.1", "-port", self.port]
        super().__init__(command, hooks.with_suffix(".log"))


class Caddy(Process):
    """One static answer to every request."""

    def __init__(self, place):
        self.port = port()
        config = place.work / f"{place.unique('caddy')}.caddyfile"
        body = json.dumps(BATCH, separators=(",", ":"))
        config.write_text(
            "{\n\tadmin off\n\tauto_https off\n}\n"
            f"http://127.0.0.1:{self.port} {{\n\theader content-type application/json\n\trespond `{body}`\n}}\n"
        )
        command = ["caddy", "run", "--config", config, "--adapter", "caddyfile"]
        env = {"XDG_DATA_HOME": str(place.work), "XDG_CONFIG_HOME": str(place.work)}
        super().__init__(command, config.with_suffix(".log"), env)
        self.accepts(self.port)


class Sampler(threading.Thread):
    """The most memory a process had, looked at ten times a second."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.most, self.over = process, 0.0, threading.Event()

    def run(self):
        while not self.over.wait(0.1):
            self.most = max(self.most, self.process.resident_mib())

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def drive(place, at, prefix, **options):
    """Runs the driver and answers what it says, with the file of accepted ids."""
    ids = place.work / f"{prefix}.ids"
    command = [place.bench, "drive", "--to", f"127.0.0.1:{at}", "--path", HOOK, "--prefix", prefix,
               "--ids", ids, "--signing", SIGNING, "--shared", SHARED]
    for name, value in options.items():
        command += [f"--{name}", value]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"drive: {done.stderr}")
    return {**json.loads(done.stdout), "ids": ids}


def tool(place, *command):
    """Runs another part of the harness to its end and answers what it says."""
    done = subprocess.run([str(p) for p in (place.bench, *command)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr}")
    return json.loads(done.stdout)


def lost(ids, db, table="captured_events"):
    """How many acknowledged ids are not in the database."""
    acknowledged = Path(ids).read_text().split()
    connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
    connection.execute("CREATE TEMP TABLE ours (id TEXT PRIMARY KEY)")
    connection.executemany("INSERT INTO ours VALUES (?)", ((one,) for one in acknowledged))
    missing = connection.execute(
        f"SELECT count(*) FROM ours WHERE id NOT IN (SELECT webhook_id FROM {table} WHERE webhook_id IS NOT NULL)"
    ).fetchone()[0]
    connection.close()
    return {"acknowledged": len(acknowledged), "lost": missing}
