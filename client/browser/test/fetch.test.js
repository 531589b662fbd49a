import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { LimitedError, throttledFetch } from "../index.js";
import { later } from "../pauses.js";

/** service answers what it is told, in order, and then 200. */
function service(...answers) {
  const sent = [];
  const fetch = async (request) => {
    sent.push({ at: performance.now(), method: request.method, body: await request.text() });
    const [status, fields] = answers.shift() ?? [200, {}];
    return new Response(status === 204 ? null : "body", { status, headers: fields });
  };
  return { fetch, sent };
}

const url = "https://api.example/x";

test("leaves alone who asks for it", async () => {
  const s = service([429, { "Retry-After": "1" }]);
  const told = [];
  const fetch = throttledFetch({ fetch: s.fetch, onLimited: (l) => told.push(l) });
  assert.equal((await fetch(url)).status, 429);
  const start = performance.now();
  assert.equal((await fetch(url)).status, 200);
  const took = performance.now() - start;
  const left = told[0].retryAfter;
  assert.ok(left > 0 && left <= 1000, `${left} ms are left of a second`);
  assert.ok(took >= left - 10, `waited ${took} ms of ${left}`);
  assert.equal(told[0].key, "https://api.example");
});

test("refuses what would wait too long, and asks nobody", async () => {
  const s = service([503, { "Retry-After": "60" }], [200, {}]);
  const fetch = throttledFetch({ fetch: s.fetch });
  await fetch(url);
  await assert.rejects(fetch(url), (err) => err instanceof LimitedError && err.name === "LimitedError" && err.retryAfter > 30_000 && err.retryAfter <= 60_000 && err.key === "https://api.example");
  assert.equal(s.sent.length, 1);
  assert.equal((await fetch("https://other.example/")).status, 200);
});

test("waits end with an abort", async () => {
  const s = service([429, { "Retry-After": "600" }]);
  const fetch = throttledFetch({ fetch: s.fetch, maxWait: 1_000_000 });
  await fetch(url);
  const start = performance.now();
  await assert.rejects(fetch(url, { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  assert.ok(performance.now() - start < 500_000);
  await assert.rejects(fetch(url, { signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.equal(s.sent.length, 1);
});

test("not too many wait", async () => {
  const s = service([429, { "Retry-After": "600" }]);
  const fetch = throttledFetch({ fetch: s.fetch, maxWait: 1_000_000, maxWaiting: 2 });
  await fetch(url);
  const tired = new AbortController();
  const [first, second, ...rest] = [1, 2, 3, 4, 5].map(() => fetch(url, { signal: tired.signal }));
  for (const r of rest) await assert.rejects(r, LimitedError);
  tired.abort();
  for (const r of [first, second]) await assert.rejects(r, { name: "AbortError" });
  assert.equal(s.sent.length, 1);
});

test("waits do not all end at one instant, and none before its time", async () => {
  const of = (ms, jitter) => Array.from({ length: 200 }, () => later(ms, jitter));
  for (const [ms, jitter, most] of [[1000, 0.25, 1250], [1_000_000, 0.25, 1_005_000]]) {
    const waits = of(ms, jitter);
    assert.ok(Math.min(...waits) >= ms && Math.max(...waits) <= most);
    assert.ok(Math.max(...waits) - Math.min(...waits) > (most - ms) * 0.9);
  }
  assert.ok(of(1000, 0).every((ms) => ms === 1000));
  const s = service([429, { "Retry-After": "1" }]);
  const fetch = throttledFetch({ fetch: s.fetch });
  await fetch(url);
  await Promise.all(Array.from({ length: 50 }, () => fetch(url)));
  const waits = s.sent.slice(1).map((x) => x.at - s.sent[0].at);
  assert.ok(Math.min(...waits) >= 990, `${waits}`);
});

test("sends again what may be", async () => {
  const refused = [429, { "Retry-After": "1" }];
  const cases = [
    ["POST", [429, { "Retry-After": "1" }], 200, 2],
    ["POST", [503, { "Retry-After": "1" }], 503, 1],
    ["PUT", [503, { "Retry-After": "1" }], 200, 2],
    ["POST", [500, { "Retry-After": "1" }], 500, 1],
    ["POST", [429, { "Retry-After": "60" }], 429, 1],
  ];
  await Promise.all(
    cases.map(async ([method, first, want, times]) => {
      const s = service(first);
      const fetch = throttledFetch({ fetch: s.fetch, retries: 1, jitter: 0 });
      assert.equal((await fetch(url, { method, body: "order" })).status, want, `${method} ${first}`);
      assert.equal(s.sent.length, times);
      assert.ok(s.sent.every((x) => x.body === "order" && x.method === method));
    }),
  );
  const s = service(refused, refused, refused);
  assert.equal((await throttledFetch({ fetch: s.fetch, retries: 1, jitter: 0 })(url)).status, 429);
  assert.equal(s.sent.length, 2);
});

test("a pause is bounded, and so is how many there are", async () => {
  const s = service([429, { "Retry-After": "999999" }]);
  const fetch = throttledFetch({ fetch: s.fetch, maxPause: 50 });
  await fetch(url);
  assert.equal((await fetch(url)).status, 200);
  const many = throttledFetch({ fetch: async () => new Response("", { status: 429, headers: { "Retry-After": "60" } }), maxWait: 0 });
  for (let i = 0; i < 1100; i++) await many(`https://h${i}.example/`);
  await assert.rejects(many("https://h1099.example/"), LimitedError);
  assert.equal((await many("https://h0.example/")).status, 429, "the oldest is forgotten");
});

test("the clock may be set", async (t) => {
  const s = service([429, { "Retry-After": "60" }]);
  const fetch = throttledFetch({ fetch: s.fetch });
  await fetch(url);
  mock.timers.enable({ apis: ["Date"], now: Date.now() + 86_400_000 });
  t.after(() => mock.timers.reset());
  await assert.rejects(fetch(url), LimitedError);
});
