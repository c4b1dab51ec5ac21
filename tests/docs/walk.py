"""A reader who types everything: see run.sh.

Each file is a walk in one shell, in a folder of its own, with free ports in the place of 8080, 8081 and
8090. Of a `sh` block every command must end with 0, and one that starts a server goes on in the
background once it answers. A `console` block is held against its output: what differs by nature (ids,
times, sizes, widths of columns) is blotted out on both sides.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

BINARY = pathlib.Path(sys.argv[1])
ROOT = pathlib.Path.cwd()
FILES = ["README.md", "docs/CLI.md", "docs/API.md", "docs/OPERATIONS.md", "docs/SIMULATOR.md", "docs/PERFORMANCE.md",
         "docs/TESTING.md", "CONTRIBUTING.md"]
SHELLS = {"sh", "console"}
TOKENS = ["HOOK_PATH_TOKEN", "HOOK_SHARED_SECRET", "HOOKLEDGER_ADMIN_TOKEN"]

# What a reader's machine has, and this one has not: systemd is the shell's own jobs here.
PRELUDE = r"""
set -E -o pipefail
trap 'failed=1' ERR
curl() { case " $* " in *' -i '*|*' -w '*) command curl "$@";; *) command curl --fail-with-body "$@";; esac; }
cargo() { :; }
up() {
    "$@" >>"$LOGS/server.log" 2>&1 &
    until command curl -s -o /dev/null "http://$WAIT" || ! kill -0 $!; do sleep 0.05; done
}
systemctl() {
    case "$1" in
        stop) kill "$(cat service.pid)"; wait "$(cat service.pid)" || :;;
        start) WAIT=$HOOKLEDGER_LISTEN/livez up hookledger serve; echo $! >service.pid;;
        restart) systemctl stop && systemctl start;;
        *) return 1;;
    esac
}
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def blotted(text: str) -> str:
    """Without what is another in every run."""
    for what, instead in [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "ID"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"\b[0-9a-z]{36,48}\b", "WEBHOOK"),
        (r"whsec_\.\.\.\S{4}", "SECRET"),
        (r"\d+(\.\d+)? [KMGT]iB", "SIZE"),
        (r"\b\d+(\.\d+)? ?(ms|µs|s)\b", "SPAN"),
        (r"[ \t]+", " "),
    ]:
        text = re.sub(what, instead, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


class Shell:
    """One bash that keeps its variables from block to block."""

    def __init__(self, folder: pathlib.Path, environment: dict[str, str]):
        self.bash = subprocess.Popen(["bash", "--norc"], cwd=folder, env=environment, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.code = 0
        self.run(PRELUDE)

    def run(self, text: str, before: int = 0) -> str:
        """Runs it and answers what it printed; `code` is how it ended, `failed` whether anything in it failed.
        `before` is how the command before it ended."""
        mark = f"--- {time.monotonic_ns()}"
        text = f"failed=0; {f'(exit {before});' if before else ''} {text}\nwas=$?; echo; echo '{mark}' $was $failed\n"
        self.bash.stdin.write(text.encode())
        self.bash.stdin.flush()
        out = []
        for line in self.bash.stdout:
            line = line.decode()
            if line.startswith(mark):
                code, failed = line.removeprefix(mark).split()
                self.code, self.failed = int(code), failed != "0"
                return "".join(out).removesuffix("\n")
            out.append(line)
        raise SystemExit(f"the shell ended:\n{''.join(out)}")

    def end(self) -> None:
        self.run("kill $(jobs -p) 2>/dev/null")
        self.bash.stdin.close()
        self.bash.wait(10)


class Walk:
    def __init__(self, work: pathlib.Path, name: str):
        self.folder = work / name.replace("/", "-")
        self.folder.mkdir()
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "hookledger").symlink_to(BINARY)
        (self.folder / "backup").mkdir()
        self.ports = {port: free_port() for port in ("8080", "8081", "8090")}
        listen, admin, gemini = (f"127.0.0.1:{port}" for port in self.ports.values())
        self.gemini = gemini
        environment = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder), "LOGS": str(self.folder),
            "HOOKLEDGER_LISTEN": listen, "HOOKLEDGER_ADMIN_LISTEN": admin, "GEMINI_BASE_URL": f"http://{gemini}",
            "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
        }
        self.shell = Shell(self.folder, environment)

    def here(self, text: str) -> str:
        """As this walk must type it."""
        for port, other in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{other}")
        text = text.replace("/backup", f"{self.folder}/backup").replace("/var/lib/hookledger", str(self.folder))
        # The name of a backup is when it was made.
        text = re.sub(r"\S+/hookledger-\d+T\d+Z.db", f"{self.folder}/backup/hookledger-*.db", text)
        text = text.replace("GEMINI_API_KEY=…", "GEMINI_API_KEY=any")
        return text.replace("GEMINI_WEBHOOK_SECRETS=whsec_…", "GEMINI_WEBHOOK_SECRETS=$(hookledger secret new --whsec)")

    # What a remark may say.

    def secrets(self) -> None:
        """A reader who has done the README's "Use it"."""
        for token in TOKENS:
            self.shell.run(f"export {token}=$(hookledger secret new)")
        self.shell.run("export GEMINI_API_KEY=any HOOK_DB=$PWD/webhook.db")

    def signing_secret(self) -> None:
        self.shell.run("export GEMINI_WEBHOOK_SECRETS=$(hookledger secret new --whsec) "
                       "HOOKLEDGER__SOURCES__GEMINI__JWT=false")

    def no_secrets(self) -> None:
        self.shell.run(f"unset {' '.join(TOKENS)} HOOK_DB")

    def operation(self) -> None:
        self.shell.run("hookledger operations register --name batches/abc --job-kind nightly")

    def no_admin_token(self) -> None:
        self.shell.run("admin=$HOOKLEDGER_ADMIN_TOKEN; unset HOOKLEDGER_ADMIN_TOKEN HOOK_DB")

    def admin_token(self) -> None:
        self.shell.run("export HOOKLEDGER_ADMIN_TOKEN=$admin HOOK_DB=$PWD/webhook.db")

    def serve(self) -> None:
        self.shell.run("systemctl start")

    def stop(self) -> None:
        self.shell.run("systemctl stop")

    def simulator(self) -> None:
        self.shell.run(f"WAIT={self.gemini}/_sim/requests up hookledger simulate --listen {self.gemini} "
                       "--webhook-url http://$HOOKLEDGER_LISTEN/hooks/gemini/$HOOK_PATH_TOKEN "
                       "--shared-secret $HOOK_SHARED_SECRET")

    def webhook(self) -> None:
        """The provider has a record of where deliveries go, as it should be."""
        self.shell.run("export HOOKLEDGER__SERVER__PUBLIC_URL=https://hooks.example "
                       "HOOKLEDGER__SUBSCRIPTION__SECRETS_FILE=$PWD/secrets.json; hookledger webhooks sync >/dev/null")

    def delivery(self) -> None:
        """One delivery is captured."""
        self.shell.run("WAIT=x; name=$(curl -s $GEMINI_BASE_URL/_sim/operations -d '{\"kind\": \"batch\", "
                       "\"complete_after_ms\": 0}' | jq -r .name); "
                       "until hookledger --json events list | jq -e '.events[0].id' >/dev/null; do sleep 0.05; done")
        self.event = self.shell.run("hookledger --json events list | jq -r '.events[0].id'").strip()

    def new_ledger(self) -> None:
        self.shell.run("rm -f $HOOK_DB*")

    def trigger_dropped(self) -> None:
        self.shell.run("sqlite3 $HOOK_DB 'DROP TRIGGER operations_settled_once'")

    def take(self, words: str) -> None:
        for word in words.split(","):
            step = getattr(self, word.strip().replace(" ", "_"), None)
            if step is None:
                raise SystemExit(f"nobody knows how to: {word.strip()}")
            step()
            if self.shell.failed:
                raise SystemExit(f"{word.strip()} failed; {self.logs()}")

    def logs(self) -> str:
        log = self.folder / "server.log"
        return "\n".join(log.read_text().splitlines()[-8:]) if log.exists() else "no server has run"

    # Blocks.

    def script(self, block: str) -> str | None:
        """Why a block of commands is not as it should be."""
        lines = block.strip().split("\n")
        server = re.search(r"hookledger (serve|simulate)\b[^\n]*(\n .*)*$", block.strip())
        if server:
            before = block.strip()[: server.start()].rstrip()
            # Assignments in front of the server stand on its own line.
            cut = before.rfind("\n") + 1 if not before.endswith("\n") else len(before)
            inline = before[cut:] if re.fullmatch(r"(\w+=\S+ ?)+", before[cut:] + " ") else ""
            if inline:
                before = before[:cut]
            at = "$HOOKLEDGER_LISTEN/livez" if server[1] == "serve" else f"{self.gemini}/_sim/requests"
            lines = [before, f"WAIT={at} {inline} up {server[0]}", "kill -0 $!", "echo $! >service.pid"]
        said = self.shell.run(self.here("\n".join(lines)))
        return f"a command failed:\n{said}\n{self.logs()}" if self.shell.failed else None

    def dialogue(self, block: str) -> str | None:
        """Why what is printed is not what is written."""
        commands = re.split(r"^\$ ", block, flags=re.M)[1:]
        for command in commands:
            line, _, written = command.partition("\n")
            line = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b", lambda _: self.event, line)
            line = re.sub(r"(\w+)=\.\.\. ", "", line)
            said = self.shell.run(self.here(line), self.shell.code)
            said = said.replace(f"{self.folder}/", "")
            if blotted(said) != blotted(written):
                return f"$ {line}\nprinted:\n{blotted(said)}\nwritten:\n{blotted(written)}\n{self.logs()}"
        return None


def blocks(text: str):
    """Each fenced block with its line, its language and the remark before it."""
    remark, lines = None, text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if found := re.fullmatch(r" *<!-- walk: (.*) -->", line):
            remark = found[1]
        elif found := re.fullmatch(r"( *)```(\w*)", line):
            start, indent = number, found[1]
            while lines[number] != f"{indent}```":
                number += 1
            block = "\n".join(line.removeprefix(indent) for line in lines[start:number])
            yield start, found[2], remark, block
            number += 1
            remark = None


def walk(name: str, work: pathlib.Path) -> tuple[int, int, int]:
    ran = failed = left = 0
    me = Walk(work, name)
    try:
        for line, language, remark, block in blocks((ROOT / name).read_text()):
            if remark and remark.startswith("left out: "):
                left += 1
                print(f"left out {name}:{line}: {remark.removeprefix('left out: ')}")
                continue
            if remark:
                me.take(remark)
            if language not in SHELLS:
                continue
            why = me.dialogue(block) if language == "console" else me.script(block)
            if why:
                failed += 1
                print(f"FAILED {name}:{line}: {why}")
            else:
                ran += 1
                print(f"ok {name}:{line}")
    finally:
        me.shell.end()
    return ran, failed, left


def main() -> int:
    wanted = sys.argv[2:] or FILES
    shown = {str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
             if re.search(r"^ *```(sh|console)$", path.read_text(), re.M)}
    # tests/quickstart walks through that one.
    strangers = shown - set(FILES) - {"docs/QUICKSTART.md"}
    if strangers:
        print(f"shows commands, and nobody walks through it: {', '.join(sorted(strangers))}")
        return 1
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        counts = [walk(name, work) for name in wanted]
    finally:
        shutil.rmtree(work)
    ran, failed, left = (sum(column) for column in zip(*counts))
    print(f"docs: {ran} passed, {failed} failed, {left} left out")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
