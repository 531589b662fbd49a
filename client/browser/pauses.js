// Who is to be left alone until when.

const MAX_KEYS = 1024;

/** now is a clock that does not jump when the system's is set, in milliseconds. */
export const now = () => performance.now();

/** Pauses keeps keys that are to be left alone. */
export class Pauses {
  #until = new Map();

  /** left returns for how many milliseconds key is to be left alone yet. */
  left(key) {
    const left = (this.#until.get(key) ?? 0) - now();
    if (left > 0) return left;
    this.#until.delete(key);
    return 0;
  }

  /** add leaves key alone for ms at least. */
  add(key, ms) {
    if (!(ms > 0)) return;
    const until = Math.max(this.#until.get(key) ?? 0, now() + ms);
    this.#until.delete(key); // so that it is the youngest
    this.#until.set(key, until);
    if (this.#until.size > MAX_KEYS) this.#until.delete(this.#until.keys().next().value);
  }
}

/** MAX_TIMEOUT is the longest that setTimeout waits, in milliseconds. */
export const MAX_TIMEOUT = 2 ** 31 - 1;

/**
 * later returns ms, longer at random by up to a share of it and five seconds: so
 * that not everybody returns at one instant.
 */
export function later(ms, jitter) {
  return ms + Math.random() * Math.min(ms * jitter, 5000);
}
