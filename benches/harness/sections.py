"""What is measured. Each section answers a document of its own, so that one can be done again."""

import shutil
import sqlite3
import statistics
import subprocess
import time
from pathlib import Path

from . import fill, pages, parts
from .place import say


def fresh(place, name):
    db = place.work / f"{place.unique(name)}.db"
    return db


def middle(values):
    return statistics.median(values)


def receive(place, known):
    """Closed loop, contestants in turns, the order reversed every other round."""
    rounds, seconds, warmup = (1, 1.0, 0.5) if place.quick else (3, 3.0, 1.0)
    plan = [("hookledger", 32), ("fastapi", 32), ("webhook", 32), ("null", 32), ("bare", 32),
            ("hookledger", 128), ("null", 128), ("bare", 128)]
    seen, lost, acknowledged = {}, 0, 0
    for turn in range(rounds):
        for name, connections in plan if turn % 2 == 0 else reversed(plan):
            say(f"receive, round {turn + 1}: {name} at {connections}")
            one = contest(place, name, f"r{turn}-{name}-{connections}", connections=connections,
                          seconds=seconds, warmup=warmup)
            if "lost" in one:
                lost, acknowledged = lost + one["lost"], acknowledged + one["acknowledged"]
            seen.setdefault(f"{name}@{connections}", []).append(one)
    summary = {key: {"rate": middle([r["rate"] for r in runs]), "p50_us": middle([r["latency_us"]["p50"] for r in runs]),
                     "p99_us": middle([r["latency_us"]["p99"] for r in runs]), "runs": runs} for key, runs in seen.items()}
    return {"ids_acknowledged": acknowledged, "ids_lost": lost, "contestants": summary}


def contest(place, name, prefix, **options):
    db = fresh(place, name)
    make = {"hookledger": lambda: parts.Service(place, db), "fastapi": lambda: parts.FastApi(place, db),
            "webhook": lambda: parts.DebianWebhook(place), "null": lambda: parts.Null(place),
            "bare": lambda: parts.Bare(place)}[name]
    table = {"hookledger": "captured_events", "fastapi": "processed_events"}.get(name)
    with make() as process:
        process.accepts(process.port)
        before = process.cpu_seconds()
        said = parts.drive(place, process.port, prefix, **options)
        said["cpu_us_each"] = round((process.cpu_seconds() - before) * 1e6 / max(said["accepted"], 1))
        if name == "hookledger":
            said["commits"] = process.commits()
    if table:
        said.update(parts.lost(said["ids"], db, table))
    return tidy(said, db)


def tidy(said, db=None):
    ids = said.pop("ids")
    Path(ids).unlink(missing_ok=True)
    for old in (db.parent.glob(db.name + "*") if db else ()):
        old.unlink()
    if said["statuses"].keys() - {"200"} or said["failures"]:
        say(f"   not all were accepted: {said['statuses']}, {said['failures']} failed ({said['first_failure']})")
    return said


def open_loop(place, known):
    """Half the rate of the closed loop; times count from when a delivery was due."""
    closed = known.get("receive") or receive(place, known)
    rate = closed["contestants"]["hookledger@128"]["rate"] / 2
    runs = []
    for turn in range(1 if place.quick else 3):
        say(f"open loop, round {turn + 1}: {rate:.0f} a second")
        runs.append(contest(place, "hookledger", f"open{turn}", connections=64, rate=rate,
                            seconds=2 if place.quick else 8, warmup=1))
    ratio = middle([r["latency_us"]["p99"] / r["latency_us"]["p50"] for r in runs])
    return {"offered": rate, "p99_to_p50": ratio, "runs": runs, "ids_lost": sum(r["lost"] for r in runs),
            "ids_acknowledged": sum(r["acknowledged"] for r in runs)}


def worker(place, known):
    """A backlog of registered operations, whose deliveries came while nothing was fetched."""
    backlog = 1000 if place.quick else 10_000
    runs = {}
    with parts.Caddy(place) as caddy, parts.Bare(place) as receiver:
        api = f"http://127.0.0.1:{caddy.port}"
        for turn in range(1 if place.quick else 3):
            for effects in (False, True):
                say(f"worker, round {turn + 1}: a backlog of {backlog}, {'with' if effects else 'without'} effects")
                one = drain(place, api, f"http://127.0.0.1:{receiver.port}/" if effects else None, backlog)
                runs.setdefault("with_effects" if effects else "settled", []).append(one)
            say(f"worker, round {turn + 1}: the API's side alone")
            config = runs["settled"][-1]["config"]
            asked = parts.tool(place, "gets", "--config", config, "--count", backlog)
            runs.setdefault("gets", []).append(asked)
    for one in runs["settled"] + runs["with_effects"]:
        del one["config"]
    return {"backlog": backlog, "runs": runs,
            "settled_per_second": middle([r["rate"] for r in runs["settled"]]),
            "with_effects_per_second": middle([r["rate"] for r in runs["with_effects"]]),
            "gets_per_second": middle([r["rate"] for r in runs["gets"]]),
            "commits_per_settled": middle([r["commits_each"] for r in runs["settled"]]),
            "commits_per_settled_with_effects": middle([r["commits_each"] for r in runs["with_effects"]])}


def backlog_of(place, count):
    """A file with that many operations registered and told of, none fetched yet."""
    db = fresh(place, "backlog")
    fill.migrate(place, db)
    fill.registered(db, count, fill.now_ms(), "back")
    with parts.Service(place, db) as service:
        service.accepts(service.port)
        said = parts.drive(place, service.port, "back", connections=64, count=count)
    found = parts.lost(said["ids"], db)
    if found["lost"] or said["accepted"] != count:
        raise RuntimeError(f"the backlog is not whole: {said}")
    return db


def drain(place, api, effects_to, backlog):
    db = backlog_of(place, backlog)
    with parts.Service(place, db, api, effects_to) as service:
        service.accepts(service.port)
        wait_for(db, backlog, bool(effects_to))
        cpu, commits, config = service.cpu_seconds(), service.commits(), service.config
    connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
    first, last, settled = connection.execute(
        "SELECT min(settled_at_ms), max(settled_at_ms), count(settled_at_ms) FROM operations").fetchone()
    if effects_to:
        last, done = connection.execute("SELECT max(finished_at_ms), count(*) FROM effects WHERE state = 'done'").fetchone()
        if done != backlog:
            raise RuntimeError(f"{done} effects of {backlog} are done")
    connection.close()
    if settled != backlog:
        raise RuntimeError(f"{settled} of {backlog} have settled")
    tidy({"ids": "/nonexistent", "statuses": {}, "failures": 0}, db)
    return {"seconds": (last - first) / 1000, "rate": backlog * 1000 / max(last - first, 1),
            "commits_each": commits / backlog, "cpu_us_each": round(cpu * 1e6 / backlog), "config": config}


def wait_for(db, count, effects):
    """Looks twice a second, with one short read each, until everything is done."""
    what = "effects WHERE state = 'done'" if effects else "operations WHERE settled_at_ms IS NOT NULL"
    until = time.time() + 300
    while time.time() < until:
        connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
        done = connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0]
        connection.close()
        if done >= count:
            return
        time.sleep(0.5)
    raise RuntimeError("the backlog is not drained after five minutes")


def reconcile(place, known):
    """A turn with 100 due, whatever else is pending."""
    turns, due = (3, 100) if place.quick else (10, 100)
    found = {}
    for count in (1_000, 10_000) if place.quick else (1_000, 100_000, 1_000_000):
        say(f"reconcile: {count} pending")
        db, at = fresh(place, "pending"), fill.now_ms()
        fill.migrate(place, db)
        fill.pending(db, count, at, due, turns)
        said = parts.tool(place, "inside", "reconcile", "--db", db, "--at-ms", at, "--times", turns)
        if said["reconcile"]["looks_queued"] != due * turns:
            raise RuntimeError(f"not what was due: {said}")
        found[str(count)] = said["reconcile"]["us"]
        for old in db.parent.glob(db.name + "*"):
            old.unlink()
    counts = list(found)
    return {"pending": found, "ratio": found[counts[-1]]["p50"] / found[counts[0]]["p50"]}


def rows(place, known):
    """A file with millions of rows against an empty one."""
    count = 20_000 if place.quick else 2_000_000
    full, at = full_file(place, count)
    found = {"rows": count, "file_mib": round(full.stat().st_size / 2**20)}
    say("rows: a claim, the lists")
    empty = fresh(place, "empty")
    fill.migrate(place, empty)
    for name, db in (("empty", empty), ("full", full)):
        fill.ready(db, 400, at, place.unique("claim"))
        said = parts.tool(place, "inside", "claim", *(["lists"] if name == "full" else []), "--db", db,
                          "--at-ms", at, "--times", 40)
        found[f"claim_{name}_us"] = said["claim"]["us"]
        if name == "full":
            found["lists_us"] = said["lists"]
    receives, lost = {"empty": [], "full": []}, 0
    for turn in range(1 if place.quick else 3):
        for name in ("empty", "full") if turn % 2 == 0 else ("full", "empty"):
            say(f"rows, round {turn + 1}: receiving on the {name} file")
            db = full if name == "full" else fresh(place, "empty")
            with parts.Service(place, db) as service:
                seconds = service.accepts(service.port)
                said = parts.drive(place, service.port, place.unique(f"rows{at}"), connections=32,
                                   seconds=1 if place.quick else 3, warmup=1)
                said["start_seconds"], said["resident_mib"] = seconds, service.resident_mib()
            gone = parts.lost(said["ids"], db)
            lost += gone["lost"]
            receives[name].append({**tidy(said, db if name == "empty" else None), **gone})
    found["ids_lost"] = lost
    found["receive_ratio"] = middle([r["rate"] for r in receives["full"]]) / middle([r["rate"] for r in receives["empty"]])
    found["claim_ratio"] = found["claim_full_us"]["p50"] / found["claim_empty_us"]["p50"]
    found["start_seconds"] = middle([r["start_seconds"] for r in receives["full"]])
    found["start_seconds_empty"] = middle([r["start_seconds"] for r in receives["empty"]])
    found["receive"] = receives
    say("rows: pruning")
    later = at + 40 * 86_400_000
    copy = place.work / "prune.db"
    shutil.copyfile(full, copy)
    found["prune"] = parts.tool(place, "inside", "prune", "--db", copy, "--at-ms", later, "--times", 40)["prune"]
    copy.unlink()
    say("rows: twice the retention")
    lives = place.work / "lives.db"
    found["lifetimes"] = parts.tool(place, "lifetimes", "--db", lives, "--daily", 100 if place.quick else 2000)
    for old in place.work.glob("lives.db*"):
        old.unlink()
    return found


def full_file(place, count):
    """Filled once, kept between runs until it is too old to be all within its retention."""
    for old in place.work.glob(f"full-{count}-*.db"):
        at = int(old.stem.rsplit("-", 1)[1])
        if fill.now_ms() - at < 12 * 3_600_000:
            return old, at
        for gone in place.work.glob(old.name + "*"):
            gone.unlink()
    at = fill.now_ms()
    path = place.work / f"full-{count}-{at}.db"
    say(f"rows: filling a file with {count} of each")
    half = place.work / "filling.db"
    fill.migrate(place, half)
    fill.history(half, count, at)
    half.rename(path)
    return path, at


def memory(place, known):
    """Resident memory when nothing happens, and the most at full rate."""
    db = fresh(place, "memory")
    with parts.Service(place, db) as service:
        service.accepts(service.port)
        time.sleep(1 if place.quick else 5)
        idle = service.resident_mib()
        say("memory: at full rate")
        with parts.Sampler(service) as sampler:
            said = parts.drive(place, service.port, "mem", connections=128, seconds=2 if place.quick else 10)
        after = service.resident_mib()
    gone = parts.lost(said["ids"], db)
    tidy(said, db)
    stripped = place.work / "stripped"
    subprocess.run(["strip", "-o", stripped, place.service], check=True)
    size = stripped.stat().st_size / 2**20
    stripped.unlink()
    return {"idle_mib": idle, "full_rate_mib": max(sampler.most, after), "after_mib": after, "rate": said["rate"],
            "binary_mib": round(size, 1), "ids_lost": gone["lost"]}


def callgrind(place, known):
    """Instructions, which repeat where times do not: the difference of two runs by their lengths."""
    few, many = (100, 300) if place.quick else (500, 2500)
    found = {}
    for connections in (1, 32):
        counts, commits = [], []
        for count in (few, many):
            say(f"callgrind: {count} deliveries over {connections} connections")
            one = counted(place, fresh(place, "callgrind"), f"cg{connections}-{count}", count, connections)
            counts.append(one[0])
            commits.append(one[1])
        found[f"delivery@{connections}"] = round((counts[1] - counts[0]) / (many - few))
        found[f"deliveries_per_commit@{connections}"] = round((many - few) / max(commits[1] - commits[0], 1), 1)
    with parts.Caddy(place) as caddy:
        counts = []
        for count in (few, many):
            say(f"callgrind: {count} operations settled")
            db = backlog_of(place, count)
            out = place.work / f"{place.unique('callgrind')}.out"
            with parts.Service(place, db, f"http://127.0.0.1:{caddy.port}", under=under(out)) as service:
                service.accepts(service.port)
                wait_for(db, count, False)
            counts.append(total(out))
        found["settled"] = round((counts[1] - counts[0]) / (many - few))
    return found


def under(out):
    return ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}"]


def counted(place, db, prefix, count, connections):
    out = place.work / f"{place.unique('callgrind')}.out"
    with parts.Service(place, db, under=under(out)) as service:
        service.accepts(service.port)
        said = parts.drive(place, service.port, prefix, count=count, connections=connections)
        commits = service.commits()
    gone = parts.lost(said["ids"], db)
    if gone["lost"] or gone["acknowledged"] != count:
        raise RuntimeError(f"not all were accepted: {said}")
    tidy(said, db)
    return total(out), commits


def total(out):
    for line in Path(out).read_text().splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    raise RuntimeError(f"{out} has no total")


SECTIONS = {"receive": receive, "open-loop": open_loop, "worker": worker, "reconcile": reconcile, "rows": rows,
            "pages": pages.measure, "memory": memory, "callgrind": callgrind}
