const SLOTS = 60; // into how many parts the window is cut

/**
 * Throttle refuses calls to a service that does not answer them, before they are sent: each
 * with the probability max(0, (requests - K * accepts) / (requests + 1)) over the window. A
 * call counts from when it is begun: else a service that hangs would not be spared until
 * the first timeouts. Times are milliseconds since the throttle was made.
 *
 * Source: Google, Site Reliability Engineering, chapter 21, Client-Side Throttling.
 */
export class Throttle {
  #ratio; // K, in 1/65536
  #least;
  #probe;
  #width;
  #now = 0;
  #sent = 0; // when the last call was let through
  #slots = Array.from({ length: SLOTS }, () => ({ number: -1, requests: 0, accepts: 0 }));
  #requests = 0;
  #accepts = 0;

  constructor({ ratio = 2, window = 120_000, least = 10, probe = 1000 } = {}) {
    if (!(ratio >= 1 && ratio <= 1000)) throw new RangeError(`throttle.ratio is ${ratio}: set it from 1 to 1000`);
    if (!(window >= 1000 && window < Infinity)) throw new RangeError(`throttle.window is ${window}: set it to 1000 ms or more`);
    if (!(least >= 0) || !(probe >= 0)) throw new RangeError("throttle.least and throttle.probe must be zero or more");
    this.#ratio = BigInt(Math.round(ratio * 65536));
    this.#least = least;
    this.#probe = probe;
    this.#width = window / SLOTS;
  }

  /** begin counts a call, and reports whether it may be sent. drawn is 32 bits at random. */
  begin(now, drawn = Math.floor(Math.random() * 2 ** 32)) {
    this.#now = Math.max(this.#now, now);
    const ticket = Math.floor(this.#now / this.#width);
    this.#expire(ticket);
    const ok = this.#requests < this.#least || this.#now - this.#sent >= this.#probe || !this.#refuses(drawn);
    if (ok) this.#sent = this.#now;
    this.#slots[ticket % SLOTS].requests++;
    this.#requests++;
    return { ticket, ok };
  }

  /** accept says that the service has answered the call. */
  accept(ticket) {
    const s = this.#slots[ticket % SLOTS];
    if (s.number !== ticket) return;
    s.accepts++;
    this.#accepts++;
  }

  /** forget takes back that there was a call: nothing can be learnt from it. */
  forget(ticket) {
    const s = this.#slots[ticket % SLOTS];
    if (s.number !== ticket) return;
    s.requests--;
    this.#requests--;
  }

  #expire(ticket) {
    if (this.#slots[ticket % SLOTS].number === ticket) return;
    for (const s of this.#slots) {
      if (s.number < 0 || s.number > ticket - SLOTS) continue;
      this.#requests -= s.requests;
      this.#accepts -= s.accepts;
      Object.assign(s, { number: -1, requests: 0, accepts: 0 });
    }
    this.#slots[ticket % SLOTS].number = ticket;
  }

  /** Exact: the same numbers give the same answer in every client. */
  #refuses(drawn) {
    const excess = (BigInt(this.#requests) << 16n) - BigInt(this.#accepts) * this.#ratio;
    return excess > 0n && BigInt(drawn) * (BigInt(this.#requests + 1) << 16n) < excess << 32n;
  }
}
