const IN_ROW = 5;
const OF_LAST = 10;
const LAST = 20;

/**
 * Breaker is open while the service is taken to be away. Once it has been open for a time
 * one call probes; a failure opens it for longer, a success closes it. Times are
 * milliseconds.
 */
export class Breaker {
  #least;
  #most;
  #open = false;
  #probing = false;
  #until = 0;
  #wait = 0;
  #row = 0; // failures since the last success
  #last = []; // the last calls, true for a failure

  constructor(least, most) {
    this.#least = least;
    this.#most = most;
  }

  /** pass reports whether a call may go, and whether it is a probe; else how long until one may. */
  pass(now) {
    if (!this.#open) return { ok: true, probe: false, left: 0 };
    const left = this.#until - now;
    if (left > 0) return { ok: false, probe: false, left };
    if (this.#probing) return { ok: false, probe: false, left: 1 }; // its outcome is about to be known
    this.#probing = true;
    return { ok: true, probe: true, left: 0 };
  }

  /** succeeded tells that a call went well, and reports whether the breaker closed for it. */
  succeeded(probe) {
    if (this.#open && !probe) return false; // sent before it opened
    const closed = this.#open;
    this.#open = this.#probing = false;
    this.#wait = 0;
    if (closed) this.#last = [];
    this.#record(false);
    return closed;
  }

  /** failed tells that a call failed, and reports whether the breaker opened for it. */
  failed(now, probe) {
    if (this.#open) return this.#failedOpen(now, probe, 0);
    this.#record(true);
    const many = this.#last.length === LAST && this.#last.filter(Boolean).length >= OF_LAST;
    if (this.#row < IN_ROW && !many) return false;
    this.#openFor(now, 0);
    return true;
  }

  /**
   * busy opens the breaker for at least ms, within the longest wait, if the service has
   * asked for it twice without an answer between: once may be the trouble of one question.
   */
  busy(now, ms, probe) {
    ms = Math.min(ms, this.#most);
    if (this.#open) return this.#failedOpen(now, probe, ms);
    this.#record(true);
    if (this.#row < 2) return false;
    this.#openFor(now, ms);
    return true;
  }

  /** canceled is a probe of which nothing can be said. */
  canceled() {
    this.#probing = false;
  }

  /** state reports whether the breaker is open, and for how long. */
  state(now) {
    return { open: this.#open, left: Math.max(this.#until - now, 0) };
  }

  #failedOpen(now, probe, ms) {
    if (probe) {
      this.#probing = false;
      this.#openFor(now, ms);
    }
    return false;
  }

  #record(failed) {
    this.#row = failed ? this.#row + 1 : 0;
    this.#last.push(failed);
    if (this.#last.length > LAST) this.#last.shift();
  }

  /** Longer by up to half at random, so that clients do not all return at one instant. */
  #openFor(now, ms) {
    this.#open = true;
    this.#wait = Math.max(Math.min(Math.max(2 * this.#wait, this.#least), this.#most), ms);
    this.#until = now + this.#wait * (1 + Math.random() / 2);
  }
}
