import { RequestError } from "./errors.js";

const MAX_COST = 2 ** 53;

/** writeCheck returns a check as the API reads it, and throws a RequestError where it cannot be asked. */
export function writeCheck(check, domain) {
  const { entries, descriptors = [{ entries }], cost = 0, priority = 0, lease = "" } = check;
  domain = text(check.domain || domain);
  const out = {};
  if (domain) out.domain = domain;
  out.descriptors = Array.from(descriptors, (d) => {
    const pairs = Array.isArray(d.entries) ? d.entries : Object.entries(d.entries ?? {});
    const one = { entries: pairs.map(([key, value]) => ({ key: text(key), value: text(value) })) };
    if (costOf(d.cost ?? 0)) one.cost = d.cost;
    if (d.peek) one.peek = true;
    return one;
  });
  if (costOf(cost)) out.cost = cost;
  if (!Number.isSafeInteger(priority)) throw new RequestError(400, `the priority ${priority} must be an integer`);
  if (priority) out.priority = priority;
  if (text(lease)) out.lease = lease;
  return out;
}

/** keyOf returns the idempotency key of a check, and throws a RequestError where there can be none. */
export function keyOf({ idempotencyKey: key = "", lease }, of = 1) {
  if (typeof key !== "string" || !/^[ -~]{0,256}$/.test(key)) throw new RequestError(400, "an idempotency key must be a string of at most 256 characters of printable ASCII");
  if (key && (lease || of > 1)) throw new RequestError(400, "an idempotency key is for one check or reservation, without a lease: that names the call itself");
  return key;
}

function costOf(cost) {
  if (!(Number.isInteger(cost) && cost >= 0 && cost <= MAX_COST)) throw new RequestError(400, `the cost ${cost} must be an integer from 0 to 2^53`);
  return cost;
}

function text(s) {
  if (typeof s !== "string") throw new RequestError(400, `domains, leases, keys and values must be strings, not ${typeof s}`);
  if (/\p{Surrogate}/u.test(s)) throw new RequestError(400, "domains, leases, keys and values must be UTF-8: two that are not would become one");
  return s;
}

/** identity is equal for two checks that were written if and only if they differ in nothing but cost. */
export const identity = ({ domain, descriptors, priority }) => JSON.stringify([domain, priority, descriptors]);

/** readDecision returns the decision that a response holds, and throws if it holds none. */
export function readDecision(d) {
  const { allowed, delay, limit, limits, remaining, retry_after, reset_after, soft, borrowed, repeated, guarantee } = object(d);
  if (typeof allowed !== "boolean") throw new TypeError("a response without an outcome");
  return {
    allowed,
    delay: seconds(delay ?? 0),
    retryAfter: seconds(retry_after),
    limit: readLimit(limit),
    remaining: remaining == null ? null : integer(remaining),
    resetAfter: seconds(reset_after),
    soft: flag(soft),
    borrowed: flag(borrowed),
    repeated: flag(repeated),
    limits: list(limits).map(readOutcome),
    source: "service",
    degraded: guarantee != null && flag(object(guarantee).degraded),
    cause: null,
  };
}

function readOutcome(value) {
  const o = object(value);
  return {
    limit: readLimit(o.limit),
    role: string(o.role),
    cost: integer(o.cost ?? 0),
    allowed: flag(o.allowed),
    charged: flag(o.charged),
    remaining: integer(o.remaining ?? 0),
    retryAfter: seconds(o.retry_after),
    resetAfter: seconds(o.reset_after),
  };
}

function readLimit(value) {
  if (value == null) return null;
  const { name, count, burst, period, algorithm } = object(value);
  return { name: string(name), count: integer(count ?? 0), burst: integer(burst ?? 0), period: seconds(period ?? 0), algorithm: string(algorithm) };
}

/**
 * isSteady reports whether a refusal stands until retryAfter, whatever others do. That a
 * permit becomes free cannot be foreseen, nor that a pool fills.
 */
export function isSteady(d) {
  if (d.allowed || d.degraded || d.retryAfter === 0 || d.limits.length === 0) return false;
  return d.limits.every((o) => o.allowed || (o.role !== "own" && o.role !== "pool" && o.limit?.algorithm !== "concurrency"));
}

export function object(v) {
  if (typeof v !== "object" || v === null || Array.isArray(v)) throw new TypeError("a response that is no object");
  return v;
}

export function list(v) {
  if (v != null && !Array.isArray(v)) throw new TypeError("a list that is none");
  return v ?? [];
}

/** seconds returns milliseconds, and Infinity for what never comes. */
function seconds(v) {
  if (v == null) return Infinity;
  if (!Number.isFinite(v) || v < 0) throw new TypeError(`${JSON.stringify(v)} is no number of seconds`);
  return v * 1000;
}

export function integer(v) {
  if (!Number.isInteger(v) || Math.abs(v) > 2 ** 63) throw new TypeError(`${JSON.stringify(v)} is no integer`);
  return v;
}

function flag(v) {
  if (v != null && typeof v !== "boolean") throw new TypeError(`${JSON.stringify(v)} is neither true nor false`);
  return v ?? false;
}

export function string(v) {
  if (v != null && typeof v !== "string") throw new TypeError(`${JSON.stringify(v)} is no text`);
  return v ?? "";
}
