// A real `hookledger serve`, a real `hookledger simulate` and a receiver of effects, on free ports.
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync, openSync, readFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const secret = () => randomBytes(24).toString("base64url");

/** A port that is free now. */
const freePort = () =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** Until `look` gives something. */
export async function eventually(what, look, patience = 30_000) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await look().catch(() => undefined);
    if (found) return found;
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Takes what effects send: yes, 410 (gone for good), or a broken connection. */
class Receiver {
  constructor() {
    this.mood = "yes";
    this.got = [];
    this.server = http.createServer((request, response) => {
      const parts = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", () => {
        this.got.push({ path: request.url, key: request.headers["idempotency-key"] });
        const mood = request.url === "/fragile" || request.url === "/once" ? this.mood : "yes";
        if (mood === "break") return request.socket.destroy();
        response.writeHead(mood === "gone" ? 410 : 200).end();
      });
    });
  }

  listen(port) {
    return new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
  }
}

export class Stand {
  static async up(binary) {
    const stand = new Stand();
    stand.folder = mkdtempSync(join(tmpdir(), "hookledger-browser-"));
    stand.token = secret();
    stand.looker = secret();
    const [sim, open, admin, sink] = [await freePort(), await freePort(), await freePort(), await freePort()];
    stand.url = `http://127.0.0.1:${admin}`;
    stand.sim = `http://127.0.0.1:${sim}`;
    stand.receiver = new Receiver();
    await stand.receiver.listen(sink);
    const path = secret();
    const shared = secret();
    const effect = (name, kind, more) =>
      `[[effects]]\nname = "${name}"\nkind = "http"\nurl = "http://127.0.0.1:${sink}/${name}"\n` +
      `job_kind = "${kind}"\nallow_private = true\ntimeout = "5s"\n${more}\n`;
    const config = join(stand.folder, "hookledger.toml");
    writeFileSync(
      config,
      `[store]\npath = "${join(stand.folder, "ledger.db")}"\nmin_free_disk = "1MiB"\n` +
        `[[admin.tokens]]\nname = "on-call"\nscope = "full"\ntoken_env = "ON_CALL_TOKEN"\n` +
        `[[admin.tokens]]\nname = "dashboard"\nscope = "read"\ntoken_env = "LOOK_TOKEN"\n` +
        `[gemini]\nbase_url = "${stand.sim}"\n` +
        `[reconcile]\ninterval = "500ms"\ngrace = "1s"\ncheck_min = "1s"\ncheck_max = "20s"\n` +
        `webhook_late_after = "2s"\n[worker]\nmax_attempts = 2\nretry_first = "100ms"\nretry_cap = "500ms"\n` +
        `[subscription]\nenabled = true\nping_interval = "5s"\nping_bound = "3s"\npoll_interval = "2s"\n` +
        `uri = "http://127.0.0.1:${open}/hooks/gemini/${path}"\nsecrets_file = "${join(stand.folder, "secrets.json")}"\n` +
        effect("notify", "*", "") +
        effect("fragile", "fragile", "") +
        effect("once", "once", 'ambiguous = "hold"'),
    );
    stand.env = {
      PATH: process.env.PATH,
      HOME: stand.folder,
      HOOK_PATH_TOKEN: path,
      HOOK_SHARED_SECRET: shared,
      GEMINI_API_KEY: "any",
      HOOKLEDGER_LISTEN: `127.0.0.1:${open}`,
      HOOKLEDGER_ADMIN_LISTEN: `127.0.0.1:${admin}`,
      ON_CALL_TOKEN: stand.token,
      LOOK_TOKEN: stand.looker,
      NO_PROXY: "127.0.0.1",
    };
    stand.binary = binary;
    stand.config = config;
    stand.simulator = stand.start("simulate", [
      "--listen", `127.0.0.1:${sim}`,
    ]);
    await eventually("the simulator answers", async () => (await fetch(`${stand.sim}/v1beta/models`, { headers: { "x-goog-api-key": "any" } })).ok);
    // The provider's record: it delivers there, signed by a secret that it shows once.
    execFileSync(binary, ["webhooks", "sync", "--config", config], { env: stand.env, stdio: "pipe" });
    stand.serve();
    await eventually("the service is ready", async () => (await fetch(`${stand.url}/readyz`)).ok);
    return stand;
  }

  serve() {
    this.service = this.start("serve", ["--config", this.config]);
  }

  start(command, args) {
    const log = openSync(join(this.folder, `${command}.log`), "a");
    return spawn(this.binary, [command, ...args], { env: this.env, stdio: ["ignore", log, log] });
  }

  /** Makes a job at the provider, and registers it. */
  async job(jobKind, asked = {}, register = true) {
    const made = await fetch(`${this.sim}/_sim/operations`, {
      method: "POST",
      body: JSON.stringify({ kind: "batch", complete_after_ms: 0, ...asked }),
    });
    const { name } = await made.json();
    if (register) await this.api("/operations", { name, job_kind: jobKind });
    return name;
  }

  async api(path, body) {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method: body ? "POST" : "GET",
      headers: { authorization: `Bearer ${this.token}`, ...(body && { "content-type": "application/json" }) },
      body: body && JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** The operation, once it is as `wanted` says. */
  operation(name, wanted) {
    return eventually(`${name} is as wanted`, async () => {
      const found = await this.api(`/operations/${name}`);
      return wanted(found) && found;
    });
  }

  logs() {
    return ["serve", "simulate"].map((name) => readFileSync(join(this.folder, `${name}.log`), "utf8")).join("\n");
  }

  async down() {
    for (const process of [this.service, this.simulator]) {
      process?.kill("SIGTERM");
    }
    this.receiver?.server.closeAllConnections();
    this.receiver?.server.close();
    await Promise.all([this.service, this.simulator].map((p) => p && p.exitCode === null && new Promise((r) => p.on("exit", r))));
    rmSync(this.folder, { recursive: true, force: true });
  }
}
