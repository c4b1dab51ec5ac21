"""RESULTS.md out of RESULTS.json."""


def markdown(results):
    parts = [head(results), goals(results)]
    for name, make in (("receive", receive), ("open-loop", open_loop), ("worker", worker), ("reconcile", reconcile),
                       ("rows", rows), ("pages", pages), ("memory", memory), ("callgrind", callgrind)):
        if name in results:
            parts.append(make(results[name]))
    return "\n".join(parts)


def head(results):
    # Of the section that depends most on the machine.
    newest = (results.get("receive") or list(results.values())[-1])["measured_on"]
    together = {part["measured_on"]["commit"] for part in results.values()}
    lines = [
        "# Results", "",
        "Written by `benches/run`; [docs/PERFORMANCE.md](../docs/PERFORMANCE.md) says what is measured and how.",
        "`RESULTS.json` beside this file holds every figure of every round.", "",
        f"| commit | {newest['commit']} |", "|---|---|",
        f"| date | {newest['date']} |",
        f"| machine | {newest['cores']} cores of {newest['cpu']}, {newest['memory_gib']} GiB |",
        f"| kernel | {newest['kernel']} |",
        f"| disk | {newest['disk']}; an fdatasync of 4 KiB takes {newest['fdatasync_us']} µs (median) |",
        "| durability | WAL, `synchronous=FULL`: one fsync before each answer, shared by those who wait. The service reads "
        "both back at its start and refuses anything else |",
        f"| all runs | {sum(p.get('ids_acknowledged', 0) for p in results.values()):,} ids acknowledged and looked for in the "
        f"files of the receive and open-loop rounds, {sum(p.get('ids_lost', 0) for p in results.values())} lost |",
    ]
    if len(together) > 1:
        each = [f"{name} at {part['measured_on']['commit']}" for name, part in results.items()]
        lines.append(f"| sections | measured at different commits: {', '.join(each)} |")
    lines += ["", "The driver runs on the same cores as what it drives, one thread of it. What costs little to serve is so "
              "held back more than what costs much: ratios against cheaper contestants look better than they are, and the "
              "processor time of each delivery is beside the rates.", ""]
    return "\n".join(lines)


def rate(results, key):
    found = results.get("receive", {}).get("contestants", {}).get(key)
    return found["rate"] if found else None


def ratio(a, b):
    return a / b if a is not None and b else None


def goals(results):
    part = lambda name, key: results.get(name, {}).get(key)
    settled, gets = part("worker", "settled_per_second"), part("worker", "gets_per_second")
    table = [
        ("accepted/s at 32 connections against the FastAPI design", "≥ 40×",
         ratio(rate(results, "hookledger@32"), rate(results, "fastapi@32")), 40, True, "×"),
        ("accepted/s at 128 connections against our null store", "≥ 0.6×",
         ratio(rate(results, "hookledger@128"), rate(results, "null@128")), 0.6, True, "×"),
        ("the null store against bare hyper, at 128", "≥ 0.5×",
         ratio(rate(results, "null@128"), rate(results, "bare@128")), 0.5, True, "×"),
        ("accepted/s at 32 connections against Debian's `webhook`", "≥ 3×",
         ratio(rate(results, "hookledger@32"), rate(results, "webhook@32")), 3, True, "×"),
        ("open loop at half the maximum rate: p99 against p50", "≤ 8×", part("open-loop", "p99_to_p50"), 8, False, "×"),
        ("receive rate, 2 million rows against empty", "≥ 0.9×", part("rows", "receive_ratio"), 0.9, True, "×"),
        ("claim time, 2 million rows against empty", "≤ 1.2×", part("rows", "claim_ratio"), 1.2, False, "×"),
        ("reconcile turn, 1M pending against 1k, 100 due", "≤ 1.5×", part("reconcile", "ratio"), 1.5, False, "×"),
        ("settled/s at backlog 10k against GETs/s that Caddy serves the same client", "≥ 0.3×",
         ratio(settled, gets), 0.3, True, "×"),
        ("commits per settled operation", "≤ 0.2", part("worker", "commits_per_settled"), 0.2, False, ""),
        ("resident memory at full rate", "≤ 96 MiB", part("memory", "full_rate_mib"), 96, False, " MiB"),
        ("resident memory idle", "≤ 32 MiB", part("memory", "idle_mib"), 32, False, " MiB"),
    ]
    lines = ["## Goals", "", "| measure | goal | measured | |", "|---|---|---|---|"]
    for what, goal, value, bound, least, unit in table:
        if value is None:
            lines.append(f"| {what} | {goal} | not measured | |")
            continue
        met = value >= bound if least else value <= bound
        lines.append(f"| {what} | {goal} | {value:.3g}{unit} | {'met' if met else '**missed**'} |")
    return "\n".join([*lines, ""])


NAMES = {"hookledger": "hookledger", "null": "hookledger with a null store", "bare": "bare hyper, 200",
         "fastapi": "FastAPI, uvicorn, sqlite3", "webhook": "Debian's `webhook`, stores nothing"}


def receive(part):
    lines = ["## Receive, closed loop", "",
             "Accepted deliveries a second, the median of the rounds; times in µs; processor time of the contestant for each.", "",
             "| contestant | connections | accepted/s | p50 | p99 | processor µs | lowest and highest round |",
             "|---|---|---|---|---|---|---|"]
    for key, one in sorted(part["contestants"].items(), key=lambda item: (int(item[0].split("@")[1]), -item[1]["rate"])):
        name, connections = key.split("@")
        rates = [run["rate"] for run in one["runs"]]
        cpu = sorted(run["cpu_us_each"] for run in one["runs"])[len(one["runs"]) // 2]
        lines.append(f"| {NAMES[name]} | {connections} | {one['rate']:,.0f} | {one['p50_us']:,.0f} | {one['p99_us']:,.0f} | {cpu} | "
                     f"{min(rates):,.0f} – {max(rates):,.0f} |")
    commits = [run for run in part["contestants"]["hookledger@128"]["runs"] if run.get("commits")]
    if commits:
        each = sum(r["accepted"] for r in commits) / sum(r["commits"] for r in commits)
        lines += ["", f"At 128 connections hookledger puts {each:.0f} deliveries into a commit."]
    lines += ["", f"{part['ids_acknowledged']:,} ids acknowledged by contestants that store; {part['ids_lost']} lost.", ""]
    return "\n".join(lines)


def open_loop(part):
    lines = ["## Receive, open loop", "", f"{part['offered']:,.0f} deliveries a second are due over 64 connections, half of the closed "
             "loop's rate; µs from when each was due.", "", "| round | p50 | p90 | p99 | p99.9 | most | p99/p50 |", "|---|---|---|---|---|---|---|"]
    for n, run in enumerate(part["runs"], 1):
        t = run["latency_us"]
        lines.append(f"| {n} | {t['p50']:,} | {t['p90']:,} | {t['p99']:,} | {t['p999']:,} | {t['max']:,} | {t['p99'] / t['p50']:.1f} |")
    return "\n".join([*lines, ""])


def worker(part):
    return "\n".join([
        "## Worker", "",
        f"A backlog of {part['backlog']:,} registered operations whose deliveries are stored; every look is answered by Caddy with "
        "one static body. Medians of the rounds.", "",
        "| | a second | commits for each |", "|---|---|---|",
        f"| fetched and settled | {part['settled_per_second']:,.0f} | {part['commits_per_settled']:.2f} |",
        f"| and one effect of each delivered over HTTP | {part['with_effects_per_second']:,.0f} | "
        f"{part['commits_per_settled_with_effects']:.2f} |",
        f"| GETs alone, by the same client, nothing done with them | {part['gets_per_second']:,.0f} | |", ""])


def reconcile(part):
    lines = ["## Reconcile", "", "A turn with 100 looks due, µs.", "", "| pending | p50 | most |", "|---|---|---|"]
    lines += [f"| {int(count):,} | {t['p50']:,} | {t['max']:,} |" for count, t in part["pending"].items()]
    return "\n".join([*lines, ""])


def rows(part):
    prune, lives = part["prune"], part["lifetimes"]
    empty, full = ([r["rate"] for r in part["receive"][name]] for name in ("empty", "full"))
    lines = [
        "## A file with many rows", "",
        f"{part['rows']:,} deliveries, as many dedupe rows, finished items and settled operations: {part['file_mib']:,} MiB.", "",
        "| | empty | full |", "|---|---|---|",
        f"| accepted/s at 32 connections | {sorted(empty)[len(empty) // 2]:,.0f} | {sorted(full)[len(full) // 2]:,.0f} |",
        f"| a claim of eight, µs (p50) | {part['claim_empty_us']['p50']:,} | {part['claim_full_us']['p50']:,} |",
        f"| from start to accepting, s | {part['start_seconds_empty']:.2f} | {part['start_seconds']:.2f} |", "",
        "| a page of 50 at the full file | p50 µs | most |", "|---|---|---|",
        *(f"| {name} | {t['p50']:,} | {t['max']:,} |" for name, t in part["lists_us"].items()), "",
        f"Pruning removes {prune['events_per_second']:,.0f} deliveries a second with all that belongs to them (a batch takes "
        f"{prune['batch_us']['p50'] / 1000:,.1f} ms), without the pauses that the service makes between batches.", "",
        f"Twice the retention: {lives['bytes_after_one_retention'] / 2**20:.1f} MiB after {lives['days_kept']} days of "
        f"{lives['deliveries_a_day']:,} deliveries, {lives['bytes_after_two'] / 2**20:.1f} MiB after {2 * lives['days_kept']}.", "",
    ]
    return "\n".join(lines)


def pages(part):
    small, large = part["operations"]
    few, many = part["pages"][str(small)], part["pages"][str(large)]
    return "\n".join([
        "## The operator's pages", "",
        f"GETs over one connection, signed in: a file with {small:,} operations and {2 * small:,} events against one with {large:,} "
        f"and {2 * large:,}. µs until the last byte, p50; the first of each is not counted, and stands beside.", "",
        f"| | {small:,} | {large:,} | ratio | most | the first |", "|---|---|---|---|---|---|",
        *(f"| {what} | {few[what]['p50_us']:,} | {one['p50_us']:,} | {part['ratios'][what]:.2f} | {one['max_us']:,} | "
          f"{one['first_us']:,} |" for what, one in many.items()), ""])


def memory(part):
    return "\n".join(["## Memory and size", "", "| | MiB |", "|---|---|", f"| resident, idle | {part['idle_mib']:.1f} |",
                      f"| resident, most at full rate ({part['rate']:,.0f}/s at 128 connections) | {part['full_rate_mib']:.1f} |",
                      f"| resident, right after | {part['after_mib']:.1f} |", f"| the program, stripped | {part['binary_mib']} |", ""])


def callgrind(part):
    return "\n".join([
        "## Instructions", "",
        "By callgrind, as the difference of two runs by their lengths: they repeat within about 5 %, where times under other "
        "load differ by factors. The whole process is counted, HTTP, SQLite and all.", "", "| | instructions |", "|---|---|",
        f"| for an accepted delivery, one connection (each its own commit) | {part['delivery@1']:,} |",
        f"| for an accepted delivery, 32 connections ({part['deliveries_per_commit@32']} in a commit) | {part['delivery@32']:,} |",
        f"| for an operation fetched and settled | {part['settled']:,} |", "",
        "[HISTORY.md](HISTORY.md) keeps what each improvement changed.", ""])
