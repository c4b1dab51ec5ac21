// The operator's page in a real browser, before a real service, simulator and receiver of effects.
//
//   node page.mjs PATH_TO_HOOKLEDGER FOLDER_FOR_SCREENSHOTS
//
// Each check prints a line "ok …" or "FAILED …". Nothing is awaited by time: what must come is waited
// for, and what must not is looked at in the end.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { open, signIn } from "./browser.mjs";
import { Stand, eventually } from "./stand.mjs";

const [binary, shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });
const axe = readFileSync(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

let [passed, failed] = [0, 0];
async function check(what, body) {
  try {
    await body();
    passed += 1;
    console.log(`ok ${what}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${what}: ${error.message.slice(0, 1500)}`);
  }
}
function must(condition, why) {
  if (!condition) throw new Error(why);
}

const stand = await Stand.up(binary);
const browser = await open();
const page = browser.context.pages()[0];
page.setDefaultTimeout(20_000);
const at = (path) => page.goto(`${stand.url}${path}`);
/** A mark that a reload would wipe away. */
const mark = () => page.evaluate(() => { window.unbroken = true; });
const unbroken = async () => must(await page.evaluate(() => window.unbroken), "the page was loaded anew");

try {
  await check("a stranger is led to sign in, and a wrong token is told so", async () => {
    await at("/operations");
    must(page.url().includes("/login?next="), page.url());
    await page.getByLabel("Admin token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("neither the token").waitFor();
    // The browser notes the 401 of that answer; it is what was asked for.
    browser.complaints.length = 0;
  });

  await check("the token leads to the overview, where all is well", async () => {
    await signIn(page, stand.url, stand.token);
    await page.locator("#sentence").getByText("All is well").waitFor();
    await page.getByText("arrived", { exact: false }).waitFor();
  });

  let lost;
  await check("a lost webhook is seen rescued, live", async () => {
    lost = await stand.job("nightly", { webhook: { deliver: "drop" }, complete_after_ms: 1500 });
    await at("/operations");
    await mark();
    const row = page.getByRole("row").filter({ hasText: lost });
    await row.getByText("rescued", { exact: true }).waitFor();
    await row.getByText("by reconcile").waitFor();
    await unbroken();
  });

  await check("its timeline is opened, and tells that no webhook came", async () => {
    await page.getByRole("link", { name: lost }).click();
    await page.getByRole("heading", { name: lost }).waitFor();
    const story = page.locator("ol.moments");
    for (const words of ["Registered", "Fetched: it has ended", "found by the timer", "Effect notify arrived"]) {
      await story.getByText(words).first().waitFor();
    }
    must((await story.getByText("Webhook", { exact: true }).count()) === 0, "a webhook is told");
    must((await page.locator("svg.timeline circle").count()) >= 4, "the drawing has too few moments");
    const local = await page.locator("time").first().getAttribute("data-local");
    must(local, "times were not made local");
  });

  await check("an event is replayed", async () => {
    const told = await stand.job("captions", { webhook: { deliver: "once" } });
    await stand.operation(told, (o) => o.state === "succeeded");
    await at(`/events?q=${told}`);
    await page.getByRole("link", { name: "batch.succeeded" }).click();
    await page.getByText("${HOOK_PATH_TOKEN:?}").waitFor();
    await page.getByRole("button", { name: "Replay" }).click();
    await page.getByRole("status").getByText("Replayed: accepted").waitFor();
    await page.getByText("replay", { exact: true }).first().waitFor();
  });

  await check("a dead effect is retried from the overview on, and its end comes live", async () => {
    stand.receiver.mood = "gone";
    const name = await stand.job("fragile");
    await at("/");
    await page.locator("#sentence").getByText("1 dead effect").waitFor();
    await page.getByRole("link", { name: "To the dead effects" }).click();
    const row = page.getByRole("row").filter({ hasText: name });
    await row.getByText("answered 410").waitFor();
    stand.receiver.mood = "yes";
    await row.getByRole("button", { name: "Retry" }).click();
    await page.getByRole("status").getByText("the same key").waitFor();
    await page.getByText("No effect here.").waitFor();
    const keys = stand.receiver.got.filter((one) => one.path === "/fragile").map((one) => one.key);
    must(keys.length === 2 && keys[0] === keys[1], `keys: ${keys}`);
  });

  await check("an effect that nobody knows about is resolved", async () => {
    stand.receiver.mood = "break";
    const name = await stand.job("once");
    await stand.operation(name, (o) => o.effects.some((e) => e.state === "held"));
    await at("/effects?state=held");
    const row = page.getByRole("row").filter({ hasText: name });
    await row.getByRole("button", { name: "It arrived" }).click();
    await page.getByRole("status").getByText("counts as arrived").waitFor();
    await stand.operation(name, (o) => o.effects.every((e) => e.state === "done"));
    await at("/");
    // What was rescued before is told for an hour; the effect is not told any more.
    const sentence = page.locator("#sentence");
    await sentence.getByText("no webhook told").waitFor();
    must(!(await sentence.innerText()).includes("held effect"), "the effect is told still");
  });

  let open_;
  await check("the main buttons are reached and pressed by keyboard alone", async () => {
    open_ = await stand.job("nightly", { manual: true });
    const { id } = await stand.operation(open_, () => true);
    await at(`/operations/${id}`);
    await mark();
    const focused = () => page.evaluate(() => document.activeElement?.id);
    await page.keyboard.press("Tab");
    must((await page.evaluate(() => document.activeElement?.className)) === "skip", "the first stop is no way to the content");
    for (let n = 0; n < 40 && (await focused()) !== "fetch"; n += 1) await page.keyboard.press("Tab");
    must((await focused()) === "fetch", "Fetch now is not reached");
    // The page shows itself anew below the hand; the focus stays.
    const before = await page.locator("ol.moments li").count();
    await stand.api(`/operations/${id}/retry`, {});
    await eventually("the page follows", async () => (await page.locator("ol.moments li").count()) > before);
    must((await focused()) === "fetch", `the focus went to ${await focused()}`);
    await unbroken();
    const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    must(ring !== "none", "no focus ring");
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("A fetch is queued").waitFor();
  });

  await check("what is selected stays, until it is let go", async () => {
    const { id } = await stand.operation(open_, () => true);
    await at(`/operations/${id}`);
    await page.locator("h1 .name").selectText();
    const stamp = () => page.locator("#live").evaluate((live) => live.dataset.stamp);
    await page.locator("#live").evaluate((live) => { live.dataset.stamp = "kept"; });
    const refetched = page.waitForEvent("request", { predicate: (request) => request.headers()["hx-request"] === "true", timeout: 4000 });
    await stand.api(`/operations/${id}/retry`, {});
    must(await refetched.then(() => false, () => true), "it was fetched anew below the selection");
    must((await stamp()) === "kept", "it was shown anew below the selection");
    await page.evaluate(() => window.getSelection().removeAllRanges());
    await eventually("it goes on", async () => (await stamp()) === undefined);
  });

  await check("dead letters are put back, after how many there are was told", async () => {
    const odd = await stand.job("nightly", { manual: true });
    await fetch(`${stand.sim}/_sim/faults`, {
      method: "POST",
      body: JSON.stringify({ fault: "garbage", name: odd, count: 0 }),
    }).then(async (answer) => must(answer.ok, await answer.text()));
    await stand.api(`/operations/${odd}/retry`, {});
    await at("/queue?state=dead");
    await page.getByRole("row").filter({ hasText: odd }).waitFor();
    await page.getByRole("link", { name: "Retry all dead letters" }).click();
    await page.getByText("1 dead letter", { exact: true }).waitFor();
    await fetch(`${stand.sim}/_sim/faults`, { method: "DELETE" });
    await page.getByRole("button", { name: "Retry all of them" }).click();
    await page.getByRole("status").getByText("Put back: 1 item").waitFor();
    await eventually("none is dead", async () => (await stand.api("/queue?state=dead")).items.length === 0);
  });

  await check("a token that may only look sees the same and presses nothing", async () => {
    const other = await open();
    const theirs = other.context.pages()[0];
    await signIn(theirs, stand.url, stand.looker);
    await theirs.getByText("may only look").waitFor();
    await theirs.goto(`${stand.url}/operations/${(await stand.operation(open_, () => true)).id}`);
    must(await theirs.getByRole("button", { name: "Fetch now" }).isDisabled(), "the button works");
    must(other.complaints.length === 0, other.complaints.join("\n"));
    await other.close();
  });

  await check("without script every page is whole", async () => {
    const plain = await open({ javaScriptEnabled: false });
    const theirs = plain.context.pages()[0];
    await signIn(theirs, stand.url, stand.token);
    await theirs.locator("#sentence").waitFor();
    const { id } = await stand.operation(open_, () => true);
    await theirs.goto(`${stand.url}/operations/${id}`);
    await theirs.getByText("UTC").first().waitFor();
    await theirs.getByRole("button", { name: "Fetch now" }).click();
    await theirs.getByRole("status").getByText("A fetch is queued").waitFor();
    await plain.close();
  });

  // Something to look at.
  stand.receiver.mood = "gone";
  const dead = await stand.job("fragile", { complete_after_ms: 4500, webhook: { deliver: "twice" } });
  stand.receiver.mood = "gone";
  const sick = await stand.operation(dead, (o) => o.effects.some((e) => e.state === "dead"));
  stand.receiver.mood = "break";
  const held = await stand.job("once");
  await stand.operation(held, (o) => o.effects.some((e) => e.state === "held"));
  for (const kind of ["captions", "thumbnails", "captions"]) await stand.job(kind, { complete_after_ms: 200 });
  const odd = await stand.job("nightly", { manual: true });
  await fetch(`${stand.sim}/_sim/faults`, { method: "POST", body: JSON.stringify({ fault: "garbage", name: odd, count: 0 }) });
  await stand.api(`/operations/${odd}/retry`, {});
  await eventually("one is dead", async () => (await stand.api("/queue?state=dead")).items.length === 1);
  const event = (await stand.api(`/events?operation=${dead}`)).events[0];
  const rooms = {
    login: null,
    overview: "/",
    operations: "/operations",
    operation: `/operations/${sick.id}`,
    rescued: `/operations/${(await stand.operation(lost, () => true)).id}`,
    events: "/events",
    event: `/events/${event.id}`,
    queue: "/queue",
    "dead-letters": "/queue?state=dead",
    effects: "/effects",
    effect: `/effects/${sick.effects.find((e) => e.state === "dead").id}`,
    alerts: "/alerts",
    settings: "/settings",
  };
  for (const [room, path] of Object.entries(rooms)) {
    await check(`${room}: fits, is accessible, in light and dark, wide and narrow`, async () => {
      const other = path ? null : await open();
      const shown = other ? other.context.pages()[0] : page;
      const problems = [];
      for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [360, "light"], [360, "dark"]]) {
        await shown.setViewportSize({ width, height: 900 });
        await shown.emulateMedia({ colorScheme });
        await shown.goto(`${stand.url}${path ?? "/login"}`);
        await shown.waitForFunction(() => !document.querySelector("time:not([data-local])"));
        const over = await shown.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (over > 0) problems.push(`${width}: ${over} px too wide`);
        await shown.screenshot({ path: join(shots, `${room}-${width}-${colorScheme}.png`), fullPage: true });
        await shown.evaluate(axe);
        const found = await shown.evaluate(() => axe.run({ resultTypes: ["violations"] }));
        for (const one of found.violations) {
          const nodes = one.nodes.map((node) => node.html.slice(0, 200)).slice(0, 3);
          problems.push(`${width} ${colorScheme} ${one.id}: ${nodes.join(" | ")}`);
        }
      }
      await other?.close();
      must(problems.length === 0, problems.join("\n"));
    });
  }

  // For the documents: what one sees first.
  for (const [room, height] of [["overview", 640], ["operation", 700]]) {
    await page.setViewportSize({ width: 1040, height });
    await page.emulateMedia({ colorScheme: "light" });
    await at(rooms[room]);
    await page.waitForFunction(() => !document.querySelector("time:not([data-local])"));
    await page.screenshot({ path: join(shots, `${room}.png`) });
  }

  await check("signing out ends it, also for a page that is open elsewhere", async () => {
    const second = await browser.context.newPage();
    await second.goto(`${stand.url}/`);
    await page.setViewportSize({ width: 1280, height: 900 });
    await at("/");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Admin token").waitFor();
    must(browser.complaints.length === 0, browser.complaints.join("\n"));
    await second.reload();
    await second.getByLabel("Admin token").waitFor();
    await second.close();
  });

  await check("the browser had nothing to complain about, the policy least of all", async () => {
    must(browser.complaints.length === 0, browser.complaints.join("\n"));
  });

  await check("a stop with pages open ends at once and leaves nothing held", async () => {
    await signIn(page, stand.url, stand.token);
    await page.locator("#sentence").waitFor();
    const service = stand.service;
    const ended = new Promise((resolve) => service.on("exit", resolve));
    const began = Date.now();
    service.kill("SIGTERM");
    const code = await ended;
    must(code === 0, `exit code ${code}`);
    must(Date.now() - began < 8000, `it took ${Date.now() - began} ms`);
    must(stand.logs().includes('"clean":true') || stand.logs().includes("clean=true"), "something was cut off");
  });
} catch (error) {
  failed += 1;
  console.log(`FAILED to go on: ${error.stack}`);
} finally {
  if (failed > 0) console.log(stand.logs().split("\n").slice(-60).join("\n"));
  await browser.close();
  await stand.down();
}
console.log(`browser: ${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
