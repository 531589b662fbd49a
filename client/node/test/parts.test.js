import assert from "node:assert/strict";
import { test } from "node:test";

import { readDecision } from "../checks.js";
import { waitOf } from "../fields.js";
import { Client, LimitedError, RequestError, throttledFetch, UnavailableError } from "../index.js";
import { Pauses } from "../pauses.js";
import { MAX_REMEMBERED, Refusals } from "../refusals.js";
import { Throttle } from "../throttle.js";
import { away, Clock, conformance, fields, Script } from "./server.js";

test("fields are read as the other clients read them", () => {
  assert.ok(fields.length > 60);
  for (const c of fields) assert.equal(waitOf({ status: c.status, headers: new Headers(c.fields) }, 1_700_000_000_000), c.wait, JSON.stringify(c));
  const wait = (...lists) => waitOf({ status: 200, headers: new Headers(lists.map((l) => ["RateLimit", l])) });
  assert.equal(wait('"a";r=0;t=1', '"b";r=0;t=2'), 2000);
  assert.equal(wait(`${'"a";r=0;t=1,'.repeat(63)}"a";r=0;t=1`), 1000);
  assert.equal(wait(`${'"a";r=0;t=1,'.repeat(64)}"a";r=0;t=1`), 0);
  assert.equal(wait(`"a";r=0;t=1;x="${"x".repeat(8192)}"`), 0);
});

test("throttles of all clients refuse alike", () => {
  for (const c of conformance.throttle) {
    const ms = (s) => (s === undefined ? undefined : s * 1000);
    const h = new Throttle({ window: ms(c.options.window), probe: ms(c.options.probe) });
    for (const [at, drawn, times, want] of c.begins) {
      let sent = 0;
      for (let i = 0; i < times; i++) {
        const { ticket, ok } = h.begin(at * 1000, drawn);
        if (!ok) continue;
        sent++;
        if (c.accept) h.accept(ticket);
      }
      assert.equal(sent, want, `${c.name}: ${[at, drawn, times]}`);
    }
  }
});

test("remembered refusals are bounded, and the latest is kept", () => {
  const m = new Refusals();
  const d = { retryAfter: 3_600_000, resetAfter: 0, delay: 0 };
  for (let i = 0; i < 3 * MAX_REMEMBERED; i++) m.remember(`k${i}`, 1, d, 0, 3_600_000);
  assert.equal(m.size, MAX_REMEMBERED);
  assert.equal(m.find(`k${3 * MAX_REMEMBERED - 1}`, 1, 1).source, "remembered");
});

test("a response that is mutilated reads or throws, and its waits are never negative", () => {
  const whole = JSON.stringify(conformance.bodies.refused);
  let seed = 7;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (let i = 0; i < 20_000; i++) {
    const at = random(whole.length);
    const text = whole.slice(0, at) + ["", "-", "null", "{}", "[1]", "1e999", '"', "true"][random(8)] + whole.slice(at + random(12));
    let d;
    try {
      d = readDecision(JSON.parse(text));
    } catch (err) {
      assert.ok(err instanceof TypeError || err instanceof SyntaxError, `${text}: ${err.stack}`);
      continue;
    }
    for (const wait of [d.delay, d.retryAfter, d.resetAfter]) assert.ok(wait >= 0, text);
  }
});

test("options out of range are errors", () => {
  for (const opt of [
    { url: "localhost:8080" }, { url: "ftp://x" }, { url: "http://x/?a=1" }, { url: "http://x/#a" }, { url: "http://u:p@x/" }, { fallback: "open" }, { budget: 0 }, { probe: -1 },
    { probe: 40_000 }, { budget: 70_000 }, { throttle: { ratio: 0.5 } }, { throttle: { ratio: NaN } }, { throttle: { window: 1 } }, { maxWaitng: 7 },
  ]) {
    assert.throws(() => new Client(opt), JSON.stringify(opt));
  }
});

test("a function decides while the service is away", async () => {
  const asked = [];
  const client = new Client({ url: await away(), fallback: (check, { peek }) => (asked.push([check.entries.user, peek]), check.entries.user === "ann") });
  const ann = await client.check({ entries: { user: "ann" } });
  const bob = await client.peek({ entries: { user: "bob" } });
  assert.deepEqual([ann.allowed, ann.source, ann.degraded, bob.allowed], [true, "local", true, false]);
  assert.ok(ann.cause instanceof UnavailableError);
  assert.deepEqual(asked, [["ann", false], ["bob", true]]);
  assert.equal(client.counters().local, 2);
});

test("a caller that has gone shows nothing about the service", async (t) => {
  const script = new Script();
  const clock = new Clock();
  const client = new Client({ url: `${await script.listen()}/limits/`, headers: { Authorization: "Bearer abc" }, budget: 5000, clock });
  t.after(() => script.close());
  script.replies = [{ hang: true }];
  for (let i = 0; i < 8; i++) {
    const gone = new AbortController();
    const call = client.check({ entries: { user: "ann" } }, { signal: gone.signal });
    gone.abort();
    await assert.rejects(call, { name: "AbortError" });
  }
  assert.deepEqual([client.counters().breaker_open, client.counters().in_flight], [false, 0]);
  script.replies = [{ say: "allowed" }];
  assert.equal((await client.check({ entries: { user: "ann" } })).source, "service");
  assert.equal(script.request.path, "/limits/v1/check");
});

test("texts that are not UTF-8, or no texts, are not sent", async () => {
  const client = new Client();
  for (const entries of [{ user: "\ud800" }, { user: 7 }]) {
    await assert.rejects(client.check({ entries }), (err) => err instanceof RequestError && err.status === 400);
  }
});

test("hosts that are left alone are bounded, and those that would be free first are", () => {
  const p = new Pauses();
  for (let i = 0; i < 5000; i++) p.add(`h${i}`, 0, 1000 + i);
  assert.equal(p.size, 4096);
  assert.deepEqual([p.left("h0", 0), p.left("h4999", 0)], [0, 5999]);
  p.add("h4999", 0, 1);
  assert.equal(p.left("h4999", 0), 5999);
  p.add("late", 100_000, 1);
  assert.deepEqual([p.left("late", 100_000), p.size], [1, 1]);
});

test("a fetch that is throttled takes what fetch takes, and ends its wait with an abort", async () => {
  const sent = [];
  const fetch = async (request) => {
    sent.push(`${request.method} ${await request.text()}`);
    return new Response("body", { status: 429, headers: { "Retry-After": "600" } });
  };
  const send = throttledFetch({ fetch, maxWait: 1_000_000, maxWaiting: 1 });
  assert.equal((await send(new Request("https://API.example/x", { method: "PUT", body: "a" }))).status, 429);
  const waits = send("https://api.example/y", { signal: AbortSignal.timeout(50) });
  await assert.rejects(send("https://api.example/z"), (err) => err instanceof LimitedError && err.key === "api.example" && !err.throttled && err.retryAfter > 500_000);
  await assert.rejects(waits, { name: "TimeoutError" });
  assert.equal((await send("https://other.example/")).status, 429);
  assert.deepEqual(sent, ["PUT a", "GET "]);
  const gone = AbortSignal.abort();
  const away = throttledFetch({ fetch: async () => { throw gone.reason; } });
  for (let i = 0; i < 50; i++) await assert.rejects(away("https://api.example/", { signal: gone }), { name: "AbortError" }); // and no LimitedError
  for (const opt of [{ maxWaiting: 0 }, { maxPause: -1 }, { retries: -1 }, { throttle: { ratio: 0 } }, { retry: 1 }]) assert.throws(() => throttledFetch(opt), JSON.stringify(opt));
});
