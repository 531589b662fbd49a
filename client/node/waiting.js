/** MAX_TIMEOUT is the longest that setTimeout waits, in milliseconds. */
const MAX_TIMEOUT = 2 ** 31 - 1;
const MAX_JITTER = 5000;

/** clock is the time of this process, which does not jump when the system's is set. */
export const clock = {
  now: () => performance.now(),

  /** sleep resolves after ms, and rejects when signal aborts. */
  sleep(ms, signal) {
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
  },
};

/** later returns ms, longer at random by up to a quarter, five seconds, and what is left of the time to wait. */
export function later(ms, left) {
  const room = Math.min(Math.max(ms / 4, 1), MAX_JITTER, left - ms);
  return room > 0 ? ms + Math.random() * room : ms;
}

/** polls returns when to ask again for a permit that is not free: how long others hold theirs is not known. */
export function polls() {
  let next = 10;
  return () => {
    const ms = Math.max(next * (1 - Math.random() / 4), 10);
    next = Math.min(2 * next, 1000);
    return ms;
  };
}
