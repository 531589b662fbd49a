import { LimitedError } from "./errors.js";
import { waitOf } from "./fields.js";
import { Pauses } from "./pauses.js";
import { Throttle } from "./throttle.js";
import { clock as processClock, later } from "./waiting.js";

const MAX_THROTTLES = 4096;

const defaults = {
  fetch: (request) => globalThis.fetch(request),
  key: (request) => new URL(request.url).host,
  maxWait: 10_000,
  maxWaiting: 1024,
  maxPause: 3_600_000,
  retries: 0,
  throttle: {},
  clock: processClock,
};

/**
 * throttledFetch returns a fetch that asks any API as that wants to be asked. A response of 429
 * or 503 with Retry-After, or one whose RateLimit fields say that nothing is left, makes the
 * requests of its key wait until then and a little longer, or fail with a LimitedError where that
 * is longer than maxWait. A key that refuses or fails many requests is asked less.
 */
export function throttledFetch(options = {}) {
  const opt = { ...defaults };
  for (const [k, v] of Object.entries(options)) {
    if (!(k in defaults)) throw new TypeError(`no option ${k}: it is one of ${Object.keys(defaults).join(", ")}`);
    if (v !== undefined) opt[k] = v;
  }
  if (!(opt.maxWaiting > 0) || !(opt.maxPause > 0) || !(opt.retries >= 0)) throw new RangeError("maxWaiting and maxPause must be above zero, and retries not below: set maxWait to -1 to disable waiting");
  if (opt.throttle !== false) new Throttle(opt.throttle); // throws where an option is out of range
  const { clock } = opt;
  const origin = clock.now();
  const pauses = new Pauses();
  const throttles = new Map();
  let waiting = 0;

  /** pass waits until key is no longer to be left alone. */
  async function pass(key, end, signal) {
    for (;;) {
      const now = clock.now();
      const left = pauses.left(key, now);
      if (left === 0) return;
      if (left > end - now || waiting >= opt.maxWaiting) throw new LimitedError(key, left, false);
      waiting++;
      try {
        await clock.sleep(later(left, end - now), signal);
      } finally {
        waiting--;
      }
    }
  }

  /** begin counts a request, unless none are counted: then there is no throttle. */
  function begin(key) {
    if (opt.throttle === false) return {};
    let throttle = throttles.get(key);
    if (throttle === undefined) {
      // What is known of any is learnt again within some requests.
      if (throttles.size >= MAX_THROTTLES) throttles.delete(throttles.keys().next().value);
      throttles.set(key, (throttle = new Throttle(opt.throttle)));
    }
    const { ticket, ok } = throttle.begin(clock.now() - origin);
    if (!ok) throw new LimitedError(key, 0, true);
    return { throttle, ticket };
  }

  return async function limitedFetch(input, init) {
    let request = new Request(input, init);
    const key = opt.key(request);
    const end = clock.now() + Math.max(opt.maxWait, 0);
    for (let attempt = 0; ; attempt++) {
      await pass(key, end, request.signal);
      const { throttle, ticket } = begin(key);
      // A body can be read once: keep another for the next attempt.
      const next = attempt < opt.retries ? request.clone() : undefined;
      let response;
      try {
        response = await opt.fetch(request);
      } catch (err) {
        if (request.signal.aborted) throttle?.forget(ticket); // its caller has gone: that says nothing of the service
        throw err;
      }
      if (response.status !== 429 && response.status < 500) throttle?.accept(ticket);
      const wait = Math.min(waitOf(response), opt.maxPause);
      if (wait === 0) return response;
      const now = clock.now();
      pauses.add(key, now, wait);
      if (next === undefined || wait > end - now || !mayRepeat(response.status, request)) return response;
      await response.body?.cancel();
      request = next;
    }
  };
}

/** mayRepeat: what was answered 429 was not served; of a 503 that is not known. */
const mayRepeat = (status, { method, headers }) =>
  status === 429 || (status === 503 && (headers.has("Idempotency-Key") || /^(GET|HEAD|OPTIONS|PUT|DELETE)$/.test(method)));
