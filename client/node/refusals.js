/** MAX_REMEMBERED is how many refusals are kept at a time. */
export const MAX_REMEMBERED = 4096;

/**
 * Refusals are those that the service made and that still hold. What was refused stays
 * refused until then plus retryAfter, and so does all that costs as much or more: what
 * others spend meanwhile can only make it longer.
 */
export class Refusals {
  #of = new Map();

  get size() {
    return this.#of.size;
  }

  /** find returns what is remembered of a check. */
  find(id, cost, now) {
    const r = this.#of.get(id);
    if (r === undefined) return undefined;
    if (now >= r.until) {
      this.#of.delete(id);
      return undefined;
    }
    if (cost < r.cost) return undefined;
    const gone = now - r.asked;
    return {
      ...r.decision,
      source: "remembered",
      limits: [],
      retryAfter: Math.max(r.decision.retryAfter - gone, 0.001),
      resetAfter: Math.max(r.decision.resetAfter - gone, 0),
    };
  }

  /** remember keeps the refusal of a question sent at asked, for most at most. */
  remember(id, cost, decision, asked, most) {
    const until = asked + Math.min(most, decision.retryAfter);
    const old = this.#of.get(id);
    // A dearer refusal does not replace a cheaper one that says more.
    if (old !== undefined && old.cost < cost && old.until >= until) return;
    if (old === undefined && this.#of.size >= MAX_REMEMBERED) this.#shrink(asked);
    this.#of.set(id, { cost, until, asked, decision });
  }

  /** forget drops everything: units were given back, and refusals may not hold. */
  forget() {
    this.#of.clear();
  }

  /** Makes room for one: drops what has ended of a few, and else what ends first. */
  #shrink(now) {
    let first;
    let ends = Infinity;
    let seen = 0;
    for (const [id, r] of this.#of) {
      if (++seen > 64) break;
      if (now >= r.until) this.#of.delete(id);
      else if (r.until < ends) [first, ends] = [id, r.until];
    }
    if (this.#of.size >= MAX_REMEMBERED) this.#of.delete(first);
  }
}
