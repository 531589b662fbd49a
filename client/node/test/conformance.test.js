// The cases that every client passes. WEIR names the command.
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { test } from "node:test";

import { Client, LimitedError, RefusedError, RequestError, throttledFetch } from "../index.js";
import { away, Clock, conformance, Script, weir } from "./server.js";

const command = process.env.WEIR;

for (const c of conformance.cases) {
  const skip = c.server === "weir" && !command ? "set WEIR to the command" : false;
  test(c.name, { skip, timeout: 60_000 }, async (t) => {
    const script = c.server === "script" ? new Script() : undefined;
    let url;
    if (script) url = await script.listen();
    else if (c.server === "away") url = await away();
    else {
      const p = await weir(command);
      t.after(() => p.close());
      url = p.url;
    }
    if (script) t.after(() => script.close());
    for (const reply of c.each ?? [undefined]) {
      const run = new Run(url, script, c.options, c.transport);
      if (reply) script.replies = [reply];
      for (const [i, step] of c.steps.entries()) await run.step(step, `${reply ? `${JSON.stringify(reply).slice(0, 100)}, ` : ""}step ${i}`);
    }
  });
}

class Run {
  clock = new Clock();
  held = new Map(); // reservations and leases
  logged = [];

  constructor(url, script, { budget = 5, fallback, domain, max_remember, max_in_flight, throttle } = {}, transport = {}) {
    this.script = script;
    if (script) script.calls = 0;
    const ms = (s) => (s === undefined ? undefined : s * 1000);
    this.client = new Client({ url, budget: ms(budget), fallback, domain, maxRemember: ms(max_remember), maxInFlight: max_in_flight, throttle, clock: this.clock,
      log: { warn: () => this.logged.push("warning"), info: () => this.logged.push("info") } });
    const { max_wait, max_waiting, max_pause, retries, no_throttle } = transport;
    this.url = url;
    this.send = throttledFetch({
      maxWait: ms(max_wait), maxWaiting: max_waiting, maxPause: ms(max_pause), retries, throttle: no_throttle ? false : transport.throttle, clock: this.clock,
    });
  }

  async step(step, where) {
    if (step.answer) return void (this.script.replies = [step.answer]);
    if (step.answers) return void (this.script.replies = [...step.answers]);
    if (step.advance) return void (this.clock.time += step.advance * 1000);
    await Promise.all(Array.from({ length: step.together ?? 0 }, () => this.ask(step)));
    for (let n = 0; n < (step.times ?? 1); n++) {
      let got = {};
      if (step.do && !step.together) {
        const start = this.clock.time;
        try {
          got = await this.ask(step);
        } catch (err) {
          got = failure(err);
          if (!step.expect.error && !step.expect.refused) throw err;
        }
        got.slept = (this.clock.time - start) / 1000;
      }
      got.counters = this.client.counters();
      got.logged = this.logged;
      if (this.script) Object.assign(got, { calls: this.script.calls, request: this.script.request });
      const k = differs(step.expect, got);
      assert.ok(k === undefined, `${where}, time ${n}, ${step.do}: ${k} of ${JSON.stringify(got)}, want ${JSON.stringify(step.expect)}`);
    }
  }

  /** ask makes the call of a step, and returns what is expected of. */
  async ask(step) {
    const { client, held } = this;
    const check = checkOf(step.check ?? {});
    const key = step.as ?? "";
    const opt = step.timeout ? { timeout: step.timeout * 1000 } : undefined;
    switch (step.do) {
      case "check":
        return facts(await client.check(check, opt));
      case "peek":
        return facts(await client.peek(check, opt));
      case "should_allow":
        return facts(await client.shouldAllow(step.client_id, opt));
      case "wait":
        return facts(await client.wait(check, opt));
      case "check_all":
        return { all: (await client.checkAll(Array(step.copies ?? 1).fill(step.checks.map(checkOf)).flat(), opt)).map(facts) };
      case "reserve": {
        const r = await client.reserve(check, opt);
        held.set(`reservation ${key}`, r);
        return { ...facts(r.decision), handle: r.handle !== "" };
      }
      case "commit":
      case "cancel": {
        const r = step.handle ? { handle: step.handle } : held.get(`reservation ${key}`);
        return step.do === "commit" ? client.commit(r, step.actual, opt) : client.cancel(r, opt);
      }
      case "acquire":
      case "renew": {
        const a = step.do === "acquire" ? await client.acquire(check, opt) : await client.renew(held.get(`lease ${key}`), opt);
        held.set(`lease ${key}`, a.lease);
        return { ...facts(a.decision), handle: a.lease !== null };
      }
      case "send":
        try {
          const res = await this.send(`${this.url}/any`, { method: step.method, body: step.body === undefined ? undefined : JSON.stringify(step.body) });
          await res.arrayBuffer();
          return { status: res.status };
        } catch (err) {
          if (!(err instanceof LimitedError)) throw err;
          return { limited: { retry_after: err.retryAfter / 1000, throttled: err.throttled } };
        }
      case "release":
        return { released: await client.release(held.get(`lease ${key}`), opt) };
    }
    throw new Error(`nothing does ${step.do}`);
  }
}

const checkOf = ({ idempotency_key: idempotencyKey, ...rest }) => ({ ...rest, idempotencyKey });

function facts(d) {
  const s = (ms) => (ms === Infinity ? "never" : ms / 1000);
  return {
    allowed: d.allowed, repeated: d.repeated, source: d.source, degraded: d.degraded, delay: s(d.delay), retry_after: s(d.retryAfter), reset_after: s(d.resetAfter),
    remaining: d.remaining ?? "unknown", algorithm: d.limit?.algorithm ?? "none", cause: d.cause?.reason ?? "none",
  };
}

function failure(err) {
  if (err instanceof RefusedError) return { ...facts(err.decision), refused: true };
  if (err instanceof RequestError) return { error: { status: err.status, detail: err.detail, code: err.code, ...err.settled } };
  return { error: { detail: err.message } };
}

/** differs returns the first key of want that got does not have or has another value of. */
const differs = (want, got) => Object.keys(want).find((k) => !fits(k, want[k], got[k]));

function fits(k, want, got) {
  if (k === "body") return isDeepStrictEqual(want, got);
  if (Array.isArray(want)) {
    if (typeof got === "number") return got >= want[0] - 1e-6 && got <= want[1] + 1e-6;
    return Array.isArray(got) && got.length === want.length && want.every((w, i) => fits("", w, got[i]));
  }
  if (typeof want === "object") return typeof got === "object" && got !== null && differs(want, got) === undefined;
  if (typeof want === "number") return typeof got === "number" && Math.abs(got - want) <= 1e-6;
  return want === got || (k === "detail" && String(got).includes(want));
}
