import { randomUUID } from "node:crypto";

import { Breaker } from "./breaker.js";
import { identity, integer, isSteady, keyOf, list, object, readDecision, string, writeCheck } from "./checks.js";
import { OutageLog } from "./outagelog.js";
import { LimitedError, RefusedError, RequestError, UnavailableError } from "./errors.js";
import { throttledFetch } from "./fetch.js";
import { ask, baseOf, MAX_BATCH_RESPONSE, MAX_RESPONSE } from "./http.js";
import { Refusals } from "./refusals.js";
import { Throttle } from "./throttle.js";
import { clock as processClock, later, polls } from "./waiting.js";

export { LimitedError, RefusedError, RequestError, throttledFetch, UnavailableError };

const MAX_CHECKS = 1000;

const defaults = {
  url: "http://localhost:8080",
  headers: {},
  domain: "",
  fallback: "allow",
  budget: 100,
  maxInFlight: 1024,
  probe: 1000,
  maxProbe: 30_000,
  maxRemember: 60_000,
  maxWait: 10_000,
  maxWaiting: 1024,
  throttle: {},
  onBreaker: () => {},
  log: console,
  fetch: (url, init) => globalThis.fetch(url, init),
  clock: processClock,
};

/** Client asks a service, and spares it and its callers what can be spared. */
export class Client {
  #opt;
  #base;
  #breaker;
  #throttle;
  #origin;
  #refusals = new Refusals();
  #inFlight = 0;
  #waiting = 0;
  #outages = new OutageLog();
  #counts = {
    calls: 0, failures: 0, timeouts: 0, overloaded: 0, caller_errors: 0, deny_cache_hits: 0, breaker_rejected: 0, throttled: 0,
    in_flight_rejected: 0, breaker_opened: 0, allowed: 0, denied: 0, local: 0, lost_leases: 0,
  };

  constructor(options = {}) {
    const opt = { ...defaults };
    for (const [k, v] of Object.entries(options)) {
      if (!(k in defaults)) throw new TypeError(`no option ${k}: it is one of ${Object.keys(defaults).join(", ")}`);
      if (v !== undefined) opt[k] = v;
    }
    for (const k of ["budget", "maxInFlight", "probe", "maxProbe", "maxWait", "maxWaiting"]) {
      if (!(opt[k] > 0)) throw new RangeError(`${k} is ${opt[k]}: set it above zero`);
    }
    if (!["allow", "deny"].includes(opt.fallback) && typeof opt.fallback !== "function") {
      throw new TypeError(`no fallback ${JSON.stringify(opt.fallback)}: set it to "allow", "deny" or a function`);
    }
    if (opt.probe > opt.maxProbe) throw new RangeError(`probe is ${opt.probe}, longer than maxProbe, ${opt.maxProbe}`);
    if ((opt.throttle.window ?? 120_000) < 2 * opt.budget) throw new RangeError(`throttle.window must be twice the budget, ${opt.budget}, or more`);
    this.#opt = opt;
    this.#base = baseOf(opt.url);
    this.#breaker = new Breaker(opt.probe, opt.maxProbe);
    this.#throttle = new Throttle(opt.throttle);
    this.#origin = opt.clock.now();
  }

  /** shouldAllow spends one unit of a client's, as POST /shouldAllowRequest does. */
  shouldAllow(clientID, options) {
    return this.check({ entries: { client_id: clientID } }, options);
  }

  /** check asks whether a request may pass, and spends what it costs if so. */
  async check(check, options) {
    return (await this.#decide([check], false, this.#limits(options)))[0];
  }

  /** peek is check that spends nothing. It is never answered from memory. */
  async peek(check, options) {
    return (await this.#decide([check], true, this.#limits(options)))[0];
  }

  /** checkAll asks up to 1000 checks at once; each is all or nothing in itself. */
  async checkAll(checks, options) {
    const n = checks.length;
    if (n === 0 || n > MAX_CHECKS) throw new RequestError(400, `${n} checks: ask from 1 to ${MAX_CHECKS} at once`);
    return this.#decide(checks, false, this.#limits(options));
  }

  /** wait is check that waits until the request may pass, within maxWait and the timeout. */
  async wait(check, options) {
    const limits = this.#limits(options);
    const now = () => this.#opt.clock.now();
    const end = Math.min(now() + this.#opt.maxWait, limits.end);
    const poll = polls();
    let inside = false;
    const sleep = async (ms, longest, refused) => {
      if (ms > end - now() || (!inside && this.#waiting >= this.#opt.maxWaiting)) throw new RefusedError(refused);
      if (!inside) this.#waiting++;
      inside = true;
      await this.#opt.clock.sleep(longest, limits.signal);
    };
    try {
      for (;;) {
        const [d] = await this.#decide([check], false, limits);
        if (d.allowed) {
          if (d.delay > 0) await sleep(d.delay, d.delay, { ...d, allowed: false, retryAfter: d.delay });
          return d;
        }
        if (d.retryAfter === Infinity) throw new RefusedError(d);
        const ms = Math.max(d.limit?.algorithm === "concurrency" ? Math.min(d.retryAfter, poll()) : d.retryAfter, 1);
        await sleep(ms, later(ms, end - now()), d);
      }
    } finally {
      if (inside) this.#waiting--;
    }
  }

  /** reserve spends an estimate, for a request whose cost is known only afterwards. */
  async reserve(check, options) {
    const body = this.#write(check);
    const limits = { ...this.#limits(options), key: keyOf(check) };
    try {
      return await this.#call("/v1/reserve", body, MAX_RESPONSE, limits, (res) => {
        const decision = readDecision(res);
        const handle = string(res.handle);
        if (decision.allowed !== (handle !== "")) throw new TypeError("a reservation without a handle, or a handle without a reservation");
        const expires = handle ? new Date(string(res.expires)) : null;
        return { decision, handle, expires };
      });
    } catch (err) {
      return { decision: await this.#without(err, check, false), handle: "", expires: null };
    }
  }

  /** commit settles a reservation by what was used. A service that does not answer is an error. */
  async commit({ handle }, actual, options) {
    if (!(Number.isInteger(actual) && actual >= 0)) throw new RequestError(400, "what was used must be an integer, zero or more");
    return this.#settle("/v1/commit", handle, { actual }, this.#limits(options));
  }

  /** cancel settles a reservation by giving all of it back. */
  async cancel({ handle }, options) {
    return this.#settle("/v1/cancel", handle, {}, this.#limits(options));
  }

  async #settle(path, handle, used, limits) {
    if (!handle) return { reserved: 0, actual: used.actual ?? 0 };
    const s = await this.#call(path, { handle, ...used }, MAX_RESPONSE, limits, (res) => {
      const { reserved, actual } = object(res);
      return { reserved: integer(reserved), actual: integer(actual ?? 0) };
    });
    if (s.actual < s.reserved) this.#refusals.forget();
    return s;
  }

  /** acquire takes a permit of the concurrency limits that a check meets, until release. */
  async acquire(check, options) {
    // Named here: a lease whose response is lost can be released.
    return this.#keep("/v1/acquire", { ...check, lease: check.lease || randomUUID() }, options);
  }

  /** #keep asks a path for a lease. */
  async #keep(path, check, options) {
    const body = this.#write(check);
    const limits = { ...this.#limits(options), key: keyOf(check) };
    let decision;
    let remote = true;
    try {
      decision = await this.#call(path, body, MAX_RESPONSE, limits, readDecision);
    } catch (err) {
      decision = await this.#without(err, check, false);
      remote = err.sent;
      if (remote && !decision.allowed) this.#counts.lost_leases++;
    }
    return { decision, lease: decision.allowed ? { check, remote } : null };
  }

  /**
   * renew holds a lease for another period, and charges no other limit. A decision that
   * refuses says that it was lost.
   */
  async renew(lease, options) {
    const next = await this.#keep("/v1/renew", lease.check, options);
    if (next.lease) next.lease.remote ||= lease.remote;
    return next;
  }

  /** release ends a lease, and reports whether it was held; null, or one that nobody holds, is no error. */
  async release(lease, options) {
    if (!lease?.remote) return false;
    return this.#call("/v1/release", this.#write(lease.check), MAX_RESPONSE, this.#limits(options), (res) => {
      const { released } = object(res);
      if (typeof released !== "boolean") throw new TypeError("a response without the release of the lease");
      return released;
    });
  }

  /** counters returns what has been counted, by the names that every client publishes. */
  counters() {
    return { ...this.#counts, in_flight: this.#inFlight, breaker_open: this.#breaker.state(this.#opt.clock.now()).open };
  }

  #write(check) {
    return writeCheck(check, this.#opt.domain);
  }

  #limits({ signal, timeout = Infinity } = {}) {
    return { signal, end: this.#opt.clock.now() + timeout };
  }

  /** Answers from memory what can be, and asks for the rest at once. */
  async #decide(checks, peek, limits) {
    const asked = this.#opt.clock.now();
    const written = checks.map((k) => this.#write(k));
    const [key] = checks.map((k) => keyOf(k, checks.length));
    // A repeat passes where others are refused.
    const ids = written.map((k) => (peek || key || this.#opt.maxRemember <= 0 ? undefined : identity(k)));
    const cost = (i) => Math.max(written[i].cost ?? 0, 1);
    const out = ids.map((id, i) => (id === undefined ? undefined : this.#refusals.find(id, cost(i), asked)));
    const at = [...out.keys()].filter((i) => out[i] === undefined);
    this.#counts.deny_cache_hits += out.length - at.length;
    if (at.length === 0) {
      limits.signal?.throwIfAborted();
      return out;
    }
    const single = at.length === 1;
    const body = single ? written[at[0]] : { checks: at.map((i) => written[i]) };
    try {
      const results = await this.#call(peek ? "/v1/peek" : "/v1/check", body, single ? MAX_RESPONSE : MAX_BATCH_RESPONSE, { ...limits, key }, (res) => {
        const all = single ? [res] : list(object(res).results);
        if (all.length !== at.length) throw new TypeError(`${all.length} results for ${at.length} checks`);
        return all.map(readDecision);
      });
      at.forEach((i, j) => {
        out[i] = results[j];
        if (ids[i] !== undefined && isSteady(results[j])) this.#refusals.remember(ids[i], cost(i), results[j], asked, this.#opt.maxRemember);
      });
    } catch (err) {
      for (const i of at) out[i] = await this.#without(err, checks[i], peek);
    }
    return out;
  }

  /**
   * Makes one call, guarded: it takes the budget at most, and is not made while the breaker
   * is open, where the throttle refuses it, or above maxInFlight.
   */
  async #call(path, body, most, { signal, end, key }, read) {
    signal?.throwIfAborted();
    const start = this.#opt.clock.now();
    if (start >= end) throw new DOMException("weir: the timeout of this call is over", "TimeoutError");
    if (this.#inFlight >= this.#opt.maxInFlight) {
      this.#counts.in_flight_rejected++;
      throw new UnavailableError("in_flight", "too many calls to the service are under way");
    }
    const { ok, probe, left } = this.#breaker.pass(start);
    if (!ok) {
      this.#counts.breaker_rejected++;
      throw Object.assign(new UnavailableError("open", "circuit breaker open: the service is unavailable"), { left });
    }
    const { ticket, ok: may } = this.#throttle.begin(start - this.#origin);
    // The breaker's probes are few: what they find is worth more than the call.
    if (!may && !probe) {
      this.#counts.throttled++;
      throw new UnavailableError("throttled", "the service fails often; this call was spared it");
    }
    const budget = Math.min(this.#opt.budget, (end - start) / 2);
    const within = new AbortController();
    const late = new UnavailableError("timeout", `no response within ${budget} ms`);
    const timer = setTimeout(() => within.abort(late), budget);
    const stop = () => within.abort(signal.reason);
    signal?.addEventListener("abort", stop, { once: true });
    this.#counts.calls++;
    this.#inFlight++;
    try {
      const headers = { ...this.#opt.headers, "Content-Type": "application/json", "Accept-Encoding": "identity" };
      if (key) headers["Idempotency-Key"] = `"${key.replace(/["\\]/g, "\\$&")}"`;
      const res = await ask(this.#opt.fetch, this.#base + path, headers, body, most, within.signal);
      const result = readAs(res, read);
      this.#answered(ticket, probe);
      return result;
    } catch (err) {
      this.#failed(err, { ticket, probe, hurry: budget < this.#opt.budget / 4 });
      throw err;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
      this.#inFlight--;
    }
  }

  #answered(ticket, probe) {
    this.#throttle.accept(ticket);
    if (this.#outages.end()) this.#opt.log.info("weir: the rate limit service answers again");
    if (this.#breaker.succeeded(probe)) this.#opt.onBreaker({ open: false, retryIn: 0, error: null });
  }

  /** Tells the guards how a call went that was not answered. */
  #failed(err, { ticket, probe, hurry }) {
    if (err instanceof RequestError) {
      this.#counts.caller_errors++;
      this.#answered(ticket, probe);
      return;
    }
    const timeout = err.reason === "timeout";
    if (timeout) this.#counts.timeouts++;
    if (!(err instanceof UnavailableError) || (timeout && hurry)) {
      // The caller has gone, or was in such a hurry that it shows nothing about the service.
      this.#throttle.forget(ticket);
      if (probe) this.#breaker.canceled();
      return;
    }
    const now = this.#opt.clock.now();
    let opened;
    if (err.reason === "busy") {
      this.#counts.overloaded++;
      opened = this.#breaker.busy(now, err.retryAfter, probe);
    } else {
      if (!timeout) this.#counts.failures++;
      opened = this.#breaker.failed(now, probe);
    }
    err.left = this.#breaker.state(now).left;
    if (opened) {
      this.#counts.breaker_opened++;
      this.#opt.onBreaker({ open: true, retryIn: err.left, error: err });
    }
  }

  /** Decides what the service did not; another error is its caller's. */
  async #without(err, check, peek) {
    if (!(err instanceof UnavailableError)) throw err;
    if (this.#outages.begin(this.#opt.clock.now())) {
      const by = typeof this.#opt.fallback === "function" ? "a function" : this.#opt.fallback;
      this.#opt.log.warn(`weir: the rate limit service does not answer; checks are decided by the fallback, ${by}: ${err.message}`);
    }
    const d = {
      allowed: false, delay: 0, retryAfter: 0, limit: null, remaining: null, resetAfter: 0, soft: false, borrowed: false, repeated: false, limits: [],
      source: "policy", degraded: true, cause: err,
    };
    switch (this.#opt.fallback) {
      case "allow":
        this.#counts.allowed++;
        return { ...d, allowed: true };
      case "deny":
        this.#counts.denied++;
        return { ...d, retryAfter: Math.max(err.left, this.#opt.budget) };
    }
    const local = await this.#opt.fallback(check, { peek });
    this.#counts.local++;
    return { ...d, ...(typeof local === "object" ? local : { allowed: local === true }), source: "local", degraded: true, cause: err };
  }
}

/** readAs reads a response: one that is not Weir's is a failure of the service. */
function readAs(res, read) {
  try {
    return read(res);
  } catch (err) {
    throw new UnavailableError("failure", err.message, { cause: err });
  }
}
