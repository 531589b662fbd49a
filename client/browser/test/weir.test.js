// Against the real command: WEIR names it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { LimitedError, limitsOf, throttledFetch, waitOf } from "../index.js";

const weir = process.env.WEIR;
const skip = weir ? false : "set WEIR to the command";
const running = [];
let upstream;

before(async () => {
  upstream = createServer((_, res) => res.end("hello"));
  await new Promise((resolve) => upstream.listen(0, "127.0.0.1", resolve));
});

after(() => {
  for (const p of running) p.kill();
  upstream.close();
  upstream.closeAllConnections();
});

/** serve starts a gateway and returns its URL. Arguments WEIR_NAME=VALUE are variables. */
async function serve(...args) {
  const variables = args.filter((a) => a.startsWith("WEIR_")).map((a) => a.split("="));
  const flags = args.filter((a) => !a.startsWith("WEIR_"));
  const p = spawn(weir, ["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--grpc", "", "--upstream", `http://127.0.0.1:${upstream.address().port}`, ...flags], { env: { ...process.env, ...Object.fromEntries(variables) }, stdio: ["ignore", "pipe", "pipe"] });
  running.push(p);
  let said = "";
  return new Promise((resolve, reject) => {
    const listen = (chunk) => {
      said += chunk;
      for (const line of said.split("\n")) {
        if (!line.startsWith("{") || !line.endsWith("}")) continue;
        const { msg, section, addr } = JSON.parse(line);
        if (msg === "listening" && section === "http") resolve(`http://${addr}/`);
      }
    };
    p.stdout.on("data", listen);
    p.stderr.on("data", listen);
    p.on("exit", () => reject(new Error(said)));
  });
}

test("the default fields of the gateway", { skip }, async () => {
  const url = await serve("--limit", "3/minute by ip", "--limit", "100/hour by ip");
  const first = await fetch(url);
  const [tight, loose] = limitsOf(first);
  assert.deepEqual([tight.remaining, tight.quota, tight.window, loose.remaining, loose.quota], [2, 3, 60, 99, 100]);
  assert.equal(waitOf(first), 0);
  await fetch(url);
  const last = await fetch(url);
  assert.equal(last.status, 200);
  const refused = await fetch(url);
  assert.equal(refused.status, 429);
  // In a minute of its own the window slides: a unit is free when a third of the
  // next one has passed.
  const wait = waitOf(refused);
  assert.ok(wait >= 1000 && wait <= 80_000, `${wait}`);
  assert.equal(limitsOf(refused)[0].remaining, 0);
});

test("waits as told, by whichever fields", { skip, concurrency: true }, async (t) => {
  const sets = ["ietf-08", "ietf-06", "x-ratelimit-reset", "none"];
  await Promise.all(
    sets.map((headers) =>
      t.test(headers, async () => {
        const url = await serve("--limit", "1/second by ip using token_bucket", `WEIR_RESPONSE_HEADERS=${headers}`);
        const refusals = [];
        const send = throttledFetch({ maxWait: 60_000, retries: 3, onLimited: (l) => refusals.push(l.retryAfter) });
        const start = performance.now();
        let sent = 0;
        // On a machine that stands still for a second a request need not wait.
        for (; sent < 3 || refusals.length === 0; sent++) assert.equal((await send(url)).status, 200);
        const took = performance.now() - start;
        assert.ok(took >= 1000 * (sent - 1) - 100, `${sent} of one a second took ${took} ms`);
      }),
    ),
  );
});

test("asks a service that refuses no more", { skip }, async () => {
  const url = await serve("--limit", "1/hour by ip");
  const send = throttledFetch({ maxWait: 0 });
  const results = [];
  for (let i = 0; i < 5; i++) {
    results.push(await send(url).then((r) => r.status, (err) => (err instanceof LimitedError ? "not sent" : err)));
  }
  // The first answer says that nothing is left.
  assert.deepEqual(results, [200, "not sent", "not sent", "not sent", "not sent"]);
});
