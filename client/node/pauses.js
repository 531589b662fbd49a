const MAX_PAUSED = 4096;

/** Pauses are the keys that are to be left alone for a while. */
export class Pauses {
  #until = new Map();

  get size() {
    return this.#until.size;
  }

  /** left returns for how many milliseconds key is to be left alone yet. */
  left(key, now) {
    const left = (this.#until.get(key) ?? now) - now;
    if (left > 0) return left;
    this.#until.delete(key);
    return 0;
  }

  /** add leaves key alone for ms at least. When too many keys are, the one that would be free first is. */
  add(key, now, ms) {
    this.#until.set(key, Math.max(this.#until.get(key) ?? 0, now + ms));
    if (this.#until.size <= MAX_PAUSED) return;
    let first = key;
    for (const [k, until] of this.#until) {
      if (until <= now) this.#until.delete(k);
      else if (until < this.#until.get(first)) first = k;
    }
    if (this.#until.size > MAX_PAUSED) this.#until.delete(first);
  }
}
