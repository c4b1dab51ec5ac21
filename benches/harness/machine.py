"""The machine and the commit that figures belong to."""

import os
import platform
import statistics
import subprocess
import time
from pathlib import Path


def first_line(path, begins):
    for line in Path(path).read_text().splitlines():
        if line.startswith(begins):
            return line.split(":", 1)[1].strip()
    return "unknown"


def output(*command, cwd=None):
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def disk_of(directory):
    """The file system of a directory and the device below it."""
    found = output("findmnt", "-no", "SOURCE,FSTYPE", "--target", str(directory)).split()
    source, kind = (found + ["unknown", "unknown"])[:2]
    device = os.path.basename(source)
    queue = Path(f"/sys/class/block/{device}/queue/rotational")
    turns = queue.read_text().strip() if queue.exists() else "?"
    below = {"0": "no rotation", "1": "rotating"}.get(turns, "unknown")
    virtual = ", virtual" if device.startswith("vd") else ""
    return f"{kind} on {device} ({below}{virtual})"


def fsync_us(directory, times=200):
    """Median of a 4 KiB append and fdatasync: what one commit cannot be faster than."""
    path = Path(directory) / "fsync-probe"
    took = []
    with open(path, "wb", buffering=0) as file:
        for _ in range(times):
            file.write(b"\0" * 4096)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1e6)
    path.unlink()
    return round(statistics.median(took))


def facts(root, work):
    dirty = output("git", "status", "--porcelain", "--", "src", "migrations", "benches/src", cwd=root)
    memory = int(first_line("/proc/meminfo", "MemTotal").split()[0])
    return {
        "commit": output("git", "rev-parse", "--short=12", "HEAD", cwd=root) + ("+changes" if dirty else ""),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": first_line("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 1024 / 1024, 1),
        "kernel": platform.release(),
        "disk": disk_of(work),
        "fdatasync_us": fsync_us(work),
        "load_before": round(os.getloadavg()[0], 2),
    }
