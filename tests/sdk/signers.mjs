// Deliveries signed by the official JavaScript library of Standard Webhooks reach a running service.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { request } from "node:http";

const { Webhook } = createRequire(`${process.env.MODULES}/`)("standardwebhooks");
const url = process.env.SERVICE_URL;
const secrets = process.env.SERVICE_SECRETS.split(",");
const foreign = `whsec_${"c3RyYW5nZXI".repeat(4)}`;

const event = (text = "done") =>
  JSON.stringify({ type: "batch.succeeded", data: { id: `batches/${randomUUID()}`, note: text } });

const post = ({ body, id, at, signature }) =>
  new Promise((resolve, reject) => {
    const headers = {
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
      "webhook-signature": signature,
    };
    const sent = request(url, { method: "POST", headers, timeout: 10000 }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (part) => (text += part));
      answer.on("end", () => {
        const said = JSON.parse(text);
        resolve(`${answer.statusCode} ${said.code ?? said.status}`);
      });
    });
    sent.on("timeout", () => sent.destroy(new Error("no answer")));
    sent.on("error", reject);
    sent.end(Buffer.from(body));
  });

const signed = (secret, body, { id = `js_${randomUUID()}`, at = new Date(), options } = {}) => ({
  body,
  id,
  at,
  signature: new Webhook(secret, options).sign(id, at, body),
});

const expect = (found, wanted, what) => {
  if (found !== wanted) throw new Error(`${what}: ${found} instead of ${wanted}`);
};

const checks = {
  async javascript_every_form_of_a_secret_signs_what_is_accepted() {
    expect(secrets.length, 4, "secrets");
    for (const secret of secrets.slice(0, 3)) {
      const bare = secret.replace(/^whsec_/, "");
      for (const spelled of [bare, `whsec_${bare}`]) {
        expect(await post(signed(spelled, event())), "200 accepted", `of ${secret.length}`);
      }
    }
    const raw = signed(secrets[3], event(), { options: { format: "raw" } });
    expect(await post(raw), "200 accepted", "the text's own bytes");
  },

  async javascript_ids_and_bodies_of_every_kind_are_accepted_once() {
    for (const id of [`msg_${randomUUID()}`, randomUUID(), `evt:${randomUUID()}/1~+=`]) {
      for (const text of ["plain", "grüße, 世界 🎉", "tab\t and \u2028 and \u0000", ""]) {
        const sent = signed(secrets[0], event(text), { id: `${id}-${text.length}` });
        expect(await post(sent), "200 accepted", id);
        expect(await post(sent), "200 duplicate", id);
      }
    }
  },

  async javascript_one_good_signature_of_several_is_enough() {
    const good = signed(secrets[1], event());
    const other = new Webhook(foreign).sign(good.id, good.at, good.body);
    const both = { ...good, signature: `${other} v1a,AAAA ${good.signature}` };
    expect(await post({ ...good, signature: other }), "401 unauthorized", "a foreign one");
    expect(await post(both), "200 accepted", "both");
  },

  async javascript_a_changed_byte_is_refused() {
    const good = signed(secrets[0], event());
    for (const changed of [
      { body: good.body.replace("done", "Done") },
      { body: `${good.body} ` },
      { id: `${good.id}x` },
      { at: new Date(good.at.getTime() + 1000) },
      { signature: good.signature.replace("v1,", "v2,") },
    ]) {
      const what = Object.keys(changed)[0];
      expect(await post({ ...good, ...changed }), "401 unauthorized", what);
    }
    expect(await post(good), "200 accepted", "unchanged");
  },

  async javascript_stale_and_early_ones_are_refused() {
    for (const minutes of [-6, 6]) {
      const at = new Date(Date.now() + minutes * 60000);
      expect(await post(signed(secrets[0], event(), { at })), "401 unauthorized", `${minutes}`);
    }
  },
};

let failed = 0;
for (const [name, run] of Object.entries(checks)) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}`);
    console.log(error.stack);
  }
}
process.exit(failed ? 1 : 0);
