// Chromium, as the machine has it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const ARGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** A browser with a user of its own; what it complains about is kept. */
export async function open(options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "hookledger-chromium-"));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ARGS,
    viewport: { width: 1280, height: 900 },
    ...options,
  });
  const complaints = [];
  context.on("page", (page) => listen(page, complaints));
  for (const page of context.pages()) listen(page, complaints);
  return {
    context,
    complaints,
    async close() {
      await context.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function listen(page, complaints) {
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`${page.url()}: ${error.message}`));
}

export async function signIn(page, url, token) {
  await page.goto(`${url}/`);
  await page.getByLabel("Admin token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${url}/`);
}
