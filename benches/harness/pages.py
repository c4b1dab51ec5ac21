"""The operator's page and its API over HTTP, on a small file and on a large one."""

import http.client
import sqlite3
import statistics
import time
import urllib.parse

from . import fill, parts
from .place import say


class Visitor:
    """Somebody who is signed in, on one connection that stays open."""

    def __init__(self, service):
        self.at = http.client.HTTPConnection("127.0.0.1", service.admin, timeout=120)
        form = urllib.parse.urlencode({"token": parts.ADMIN, "next": "/"})
        status, headers, _ = self.ask("POST", "/login", {"content-type": "application/x-www-form-urlencoded"}, form)
        if status != 303:
            raise RuntimeError(f"signing in answers {status}")
        self.cookie = headers["set-cookie"].split(";")[0]

    def ask(self, method, path, headers, body=None):
        self.at.request(method, path, body, headers)
        answer = self.at.getresponse()
        return answer.status, answer.headers, answer.read()

    def get(self, path):
        """How long it took, in µs, until the last byte was there, and how many there were."""
        api = path.startswith("/api/")
        headers = {"authorization": f"Bearer {parts.ADMIN}"} if api else {"cookie": self.cookie}
        began = time.perf_counter()
        status, _, body = self.ask("GET", path, headers)
        took = (time.perf_counter() - began) * 1e6
        if status != 200:
            raise RuntimeError(f"{path} answers {status}: {body[:300]!r}")
        return took, len(body)


def paths(db):
    """What is asked for: the name it has in the results, and where it is."""
    connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
    one, name = connection.execute(
        "SELECT id, segment FROM operations WHERE effects_expected = 1 ORDER BY id DESC LIMIT 1 OFFSET 5").fetchone()
    connection.close()
    lists = {
        "operations": "/operations",
        "operations, pending": "/operations?state=pending",
        "operations, failed": "/operations?state=failed",
        "operations, videos": "/operations?kind=video",
        "operations, by name": f"/operations?q={name}",
        "one operation": f"/operations/{one}",
        "events": "/events",
        "queue": "/queue",
        "dead letters": "/queue?state=dead",
        "effects": "/effects",
        "effects, dead": "/effects?state=dead",
    }
    asked = {"overview": "/"}
    for what, path in lists.items():
        asked[what] = path
        asked[f"{what} (API)"] = f"/api/v1{path}"
    return asked


def measure(place, known):
    """First pages of a file with many rows against those of a small one."""
    small, large = (1_000, 10_000) if place.quick else (1_000, 1_000_000)
    times = 5 if place.quick else 41
    found = {}
    for count in (small, large):
        say(f"pages: {count} operations, {2 * count} events")
        db = place.work / f"{place.unique('pages')}.db"
        fill.migrate(place, db)
        fill.house(db, count, fill.now_ms())
        with parts.Service(place, db) as service:
            service.accepts(service.admin)
            visitor, seen = Visitor(service), {}
            for what, path in paths(db).items():
                # The first fills the caches of file and statements, and is not counted.
                first, size = visitor.get(path)
                took = sorted(visitor.get(path)[0] for _ in range(times))
                seen[what] = {"first_us": round(first), "p50_us": round(statistics.median(took)),
                              "max_us": round(took[-1]), "bytes": size}
        found[str(count)] = seen
        for old in db.parent.glob(db.name + "*"):
            old.unlink()
    ratios = {what: one["p50_us"] / found[str(small)][what]["p50_us"] for what, one in found[str(large)].items()}
    return {"operations": [small, large], "pages": found, "ratios": ratios, "worst_ratio": max(ratios.values())}
