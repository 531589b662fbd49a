import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { limitsOf, waitOf } from "../index.js";

const answer = (status, fields) => ({ status, headers: new Headers(fields) });
const NOW = 1_700_000_000_000;

// The same file is read by a Go test: both clients read an answer alike.
for (const { status, fields, wait } of JSON.parse(readFileSync(new URL("fields.json", import.meta.url), "utf8"))) {
  test(`waits ${wait} ms for ${status} ${JSON.stringify(fields)}`, () => {
    assert.equal(waitOf(answer(status, fields), NOW), wait);
  });
}

test("limits, the tightest first", () => {
  assert.deepEqual(
    limitsOf(answer(200, { "RateLimit-Policy": '"permin";q=50;w=60, "perhr";q=1000;w=3600', RateLimit: '"perhr";r=950;t=2800, "permin";r=12;t=30' })),
    [
      { name: "permin", remaining: 12, resetAfter: 30, quota: 50, window: 60 },
      { name: "perhr", remaining: 950, resetAfter: 2800, quota: 1000, window: 3600 },
    ],
  );
  assert.deepEqual(
    limitsOf(answer(429, { RateLimit: '"a \\"b\\"";r=0;t=3;pk=:aGk=:, "c";r=0;t=30, "d";r=5' })).map((l) => l.name),
    ["c", 'a "b"', "d"],
  );
});

test("earlier and other fields", () => {
  assert.deepEqual(limitsOf(answer(200, { "RateLimit-Limit": "10", "RateLimit-Remaining": "3", "RateLimit-Reset": "7" })), [
    { name: "", remaining: 3, resetAfter: 7, quota: 10 },
  ]);
  const x = (reset) => limitsOf(answer(200, { "X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": reset }), NOW)[0].resetAfter;
  assert.equal(x("7"), 7);
  assert.equal(x("1700000007"), 7);
  assert.equal(x("1700000007500"), 8);
  assert.equal(x("1600000000"), 0);
  assert.equal(x("Tue, 14 Nov 2023 22:13:27 GMT"), 7);
  assert.equal(x("2023-11-14T22:13:27Z"), 7);
  assert.equal(x("soon"), undefined);
  assert.equal(waitOf(answer(429, { "X-RateLimit-Retry-After": "9" })), 9000);
  assert.equal(waitOf(answer(403, { "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000007" }), NOW), 7000);
});

test("an answer that says nothing, or came from a cache", () => {
  assert.deepEqual(limitsOf(answer(200, {})), []);
  assert.deepEqual(limitsOf(answer(200, { RateLimit: '"a";r=0;t=3', Age: "1" })), []);
  assert.equal(limitsOf(answer(200, { RateLimit: '"a";r=0;t=3', Age: "0" })).length, 1);
});

test("no answer takes long to read", () => {
  for (const v of ['"', "a;", '"a";', ":", '"a";x=:' + "A".repeat(4000), '"a";x=%"' + "%c3".repeat(2000), "\\".repeat(8000), '"a";r=0;t=1,'.repeat(600), "1".repeat(8000), '"a";' + "x;".repeat(4000)]) {
    const start = performance.now();
    limitsOf(answer(429, { RateLimit: v, "X-RateLimit-Reset": v, "X-RateLimit-Remaining": "0" }));
    assert.ok(performance.now() - start < 1000, v.slice(0, 20));
  }
});
