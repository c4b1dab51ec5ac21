"""See run.sh. What was acknowledged before the last sync of the replica must be in the restored file;
what came after it may be lost with the machine, and its sender gets in again with it."""

import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing

HOOKLEDGER, LITESTREAM = sys.argv[1:]
SENDERS, EACH = 4, 500
# A bound on waiting, no claim about speed.
PATIENCE = 60


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Drill:
    def __init__(self, work: pathlib.Path):
        self.work, self.db, self.replica = work, work / "webhook.db", work / "replica"
        self.token, self.secret = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.public = f"127.0.0.1:{free_port()}"
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(work), "HOOK_DB": str(self.db), "HOOK_PATH_TOKEN": self.token,
            "HOOK_SHARED_SECRET": self.secret, "HOOKLEDGER_LISTEN": self.public,
            "HOOKLEDGER_ADMIN_LISTEN": f"127.0.0.1:{free_port()}",
        }
        self.config = work / "litestream.yml"
        self.config.write_text(json.dumps({"dbs": [{"path": str(self.db), "replicas": [
            {"path": str(self.replica), "sync-interval": "100ms"}]}]}))
        self.started: list[subprocess.Popen] = []
        self.http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def start(self) -> subprocess.Popen:
        with open(self.work / "service.log", "a") as log:
            service = subprocess.Popen([HOOKLEDGER, "serve"], cwd=self.work, env=self.environment, stdout=log, stderr=log)
        self.started.append(service)
        until("the service is up", lambda: self.get("/readyz") == 200)
        return service

    def get(self, path: str) -> int | None:
        try:
            return self.http.open(f"http://{self.public}{path}", timeout=5).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def deliver(self, one: str) -> bool:
        body = json.dumps({"type": "batch.succeeded", "data": {"id": f"batches/{one}"}}).encode()
        request = urllib.request.Request(f"http://{self.public}/hooks/gemini/{self.token}", body, {
            "content-type": "application/json", "x-hook-secret": self.secret, "webhook-id": one})
        try:
            return self.http.open(request, timeout=10).status == 200
        except OSError:
            return False

    def load(self, name: str, cut=None) -> list[str]:
        """Deliveries from a few senders; answers those that were acknowledged. `cut` ends it when half is done."""
        done, stop, lock = [], threading.Event(), threading.Lock()

        def sender(number: int) -> None:
            for n in range(EACH):
                if stop.is_set():
                    return
                one = f"{name}-{number}-{n}"
                if self.deliver(one):
                    with lock:
                        done.append(one)

        senders = [threading.Thread(target=sender, args=(number,)) for number in range(SENDERS)]
        for one in senders:
            one.start()
        if cut:
            until("half is sent", lambda: len(done) >= SENDERS * EACH // 2)
            cut()
            stop.set()
        for one in senders:
            one.join()
        return done

    def restored(self, to: pathlib.Path) -> set[str] | None:
        to.unlink(missing_ok=True)
        said = subprocess.run([LITESTREAM, "restore", "-config", self.config, "-o", to, self.db], capture_output=True, text=True)
        if said.returncode != 0:
            return None
        # Closed before the file is renamed: SQLite keeps what it knows of a file by its inode.
        with closing(sqlite3.connect(to)) as file:
            assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            return {row[0] for row in file.execute("SELECT webhook_id FROM captured_events")}


def until(what: str, true) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"litestream: {what}: not within {PATIENCE} s")
        time.sleep(0.05)


def main(drill: Drill) -> None:
    work = drill.work
    service = drill.start()
    with open(work / "litestream.log", "w") as log:
        replicating = subprocess.Popen([LITESTREAM, "replicate", "-config", drill.config], stdout=log, stderr=log)
    drill.started.append(replicating)
    first = drill.load("first")
    assert len(first) == SENDERS * EACH, f"{len(first)} of {SENDERS * EACH} were acknowledged beside litestream"
    copy = work / "copy.db"
    until("all of the first are in the replica", lambda: set(first) <= (drill.restored(copy) or set()))

    def lose() -> None:
        for process in (replicating, service):
            process.send_signal(signal.SIGKILL)
            process.wait()

    second = drill.load("second", cut=lose)
    log_bytes = os.path.getsize(f"{drill.db}-wal")
    found = drill.restored(copy)
    assert found is not None and set(first) <= found, "the replica has lost what it had"
    lost = [one for one in second if one not in found]

    for old in work.glob("webhook.db*"):
        old.unlink()
    copy.rename(drill.db)
    service = drill.start()
    again = [drill.deliver(one) for one in lost]
    assert all(again), "a delivery that was lost with the machine was not taken again"
    service.terminate()
    assert service.wait(30) == 0
    doctor = subprocess.run([HOOKLEDGER, "--json", "doctor"], cwd=work, env=drill.environment, capture_output=True, text=True)
    checks = {check["check"]: check["state"] for check in json.loads(doctor.stdout)["checks"]}
    assert checks["file"] == checks["ledger"] == "ok", doctor.stdout
    with closing(sqlite3.connect(drill.db)) as file:
        stored = {row[0] for row in file.execute("SELECT webhook_id FROM captured_events")}
    missing = (set(first) | set(second)) - stored
    assert not missing, f"missing: {sorted(missing)}"
    print(f"litestream: {len(first)} acknowledged and replicated, then {len(second)} up to the loss of the machine, of which "
          f"the replica lacked {len(lost)}, taken again; the log was {log_bytes // 1024} KiB; passed")


if __name__ == "__main__":
    folder = pathlib.Path(tempfile.mkdtemp())
    drill = Drill(folder)
    try:
        main(drill)
    except BaseException:
        for name in ("service.log", "litestream.log"):
            if (folder / name).exists():
                print("\n".join((folder / name).read_text().splitlines()[-8:]))
        raise
    finally:
        for process in drill.started:
            process.kill()
            process.wait()
        shutil.rmtree(folder)
