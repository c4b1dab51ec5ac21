"""Where things are built, installed and kept while a run lasts."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path


class Place:
    def __init__(self, quick):
        self.quick = quick
        self.root = Path(__file__).resolve().parents[2]
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hookledger"
        self.venv = cache / "bench-venv"
        self.work = Path(os.environ.get("HOOKLEDGER_BENCH_DIR", cache / "bench-work"))
        self.target = Path(os.environ.get("CARGO_TARGET_DIR", cache / "bench-target"))
        self.service = self.target / "release" / "hookledger"
        self.bench = self.target / "release" / "hookledger-bench"
        self.numbers = itertools.count()

    def unique(self, name):
        return f"{name}-{next(self.numbers)}"

    def clean(self):
        """What a run before left, but for the file that takes long to fill."""
        self.work.mkdir(parents=True, exist_ok=True)
        for old in self.work.iterdir():
            if not old.name.startswith("full-"):
                shutil.rmtree(old) if old.is_dir() else old.unlink()

    def build(self):
        say("building (minutes, the first time)")
        manifest = self.root / "benches" / "Cargo.toml"
        env = {**os.environ, "CARGO_TARGET_DIR": str(self.target)}
        cargo = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(manifest)]
        subprocess.run(cargo, check=True, env=env)

    def install(self):
        wanted = {"caddy": "caddy", "webhook": "webhook", "valgrind": "valgrind"}
        missing = [package for program, package in wanted.items() if not shutil.which(program)]
        if missing:
            say(f"installing Debian's {', '.join(missing)}")
            apt = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
            subprocess.run(["apt-get", "update"], check=False, capture_output=True)
            if subprocess.run(apt, check=False, capture_output=True).returncode != 0:
                sys.exit(f"cannot be installed (root is needed): {' '.join(missing)}")
        if not (self.venv / "bin" / "uvicorn").exists():
            say("installing FastAPI and uvicorn into a virtual environment")
            subprocess.run([sys.executable, "-m", "venv", self.venv], check=True)
            wanted = self.root / "benches" / "baseline" / "requirements.txt"
            subprocess.run([self.venv / "bin" / "pip", "install", "--quiet", "-r", wanted], check=True)


def say(what):
    print(f"== {what}", file=sys.stderr, flush=True)
