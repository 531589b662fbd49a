import { waitOf } from "./fields.js";
import { later, MAX_TIMEOUT, now, Pauses } from "./pauses.js";

/** LimitedError is the error of a request that was not sent. */
export class LimitedError extends Error {
  constructor(key, retryAfter) {
    super(`${key} asked to be left alone: retry after ${Math.ceil(retryAfter / 1000)} s`);
    this.name = "LimitedError";
    this.key = key;
    this.retryAfter = retryAfter;
  }
}

/**
 * throttledFetch returns a fetch that leaves alone who asks for it: requests of
 * its origin wait, or are refused with a LimitedError where that would take
 * longer than maxWait.
 */
export function throttledFetch({
  fetch: send = globalThis.fetch,
  maxWait = 10_000,
  maxWaiting = 100,
  maxPause = 3_600_000,
  retries = 0,
  jitter = 0.25,
  key = (request) => new URL(request.url).origin,
  onLimited = () => {},
} = {}) {
  const pauses = new Pauses();
  let waiting = 0;

  /** pass waits until k is no longer to be left alone. */
  async function pass(k, request, end) {
    for (let left = pauses.left(k); left > 0; left = pauses.left(k)) {
      onLimited({ key: k, retryAfter: left, request });
      if (now() + left > end || waiting >= maxWaiting) throw new LimitedError(k, left);
      waiting++;
      try {
        await sleep(Math.max(Math.min(later(left, jitter), end - now()), left), request.signal);
      } finally {
        waiting--;
      }
    }
  }

  return async function limitedFetch(input, init) {
    let request = new Request(input, init);
    const end = now() + maxWait;
    const k = key(request);
    for (let attempt = 0; ; attempt++) {
      await pass(k, request, end);
      // A body can be read once: keep another for the next attempt.
      const next = attempt < retries ? request.clone() : undefined;
      const response = await send.call(globalThis, request);
      const wait = Math.min(waitOf(response), maxPause);
      pauses.add(k, wait);
      if (next === undefined || wait === 0 || now() + wait > end || !repeatable(response.status, request.method)) return response;
      await response.body?.cancel();
      request = next;
    }
  };
}

/** repeatable: what was answered 429 was not served; of a 503 that is not known. */
const repeatable = (status, method) => status === 429 || (status === 503 && /^(GET|HEAD|OPTIONS|PUT|DELETE)$/.test(method));

/** sleep resolves after ms, and rejects when signal aborts. */
function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, Math.min(ms, MAX_TIMEOUT));
    signal?.addEventListener("abort", stop, { once: true });
  });
}
