import type { Rates } from "./types.ts";

export interface Caught {
  clients: number;
  users: number;
  units: number;
  /** Of all units, 0 to 1. */
  share: number;
}

/** What a limit of so many units a window would have caught: docs/reference/analytics.md, rates. */
export function caught(rates: Rates, limit: number): Caught {
  const out: Caught = { clients: 0, users: 0, units: 0, share: 0 };
  for (const p of rates.peaks ?? []) {
    if (p.peak <= limit) continue;
    out.clients += p.clients;
    out.users += p.users;
  }
  for (const b of rates.buckets ?? []) {
    if (b.rate > limit) out.units += Math.max(0, b.units - limit * b.windows);
  }
  out.share = rates.units > 0 ? out.units / rates.units : 0;
  return out;
}

export interface Step {
  /** Ranks from .. to have this peak; the highest peak has rank 1. */
  from: number;
  to: number;
  peak: number;
}

/** The clients by rank, highest peak first. */
export function steps(rates: Rates): Step[] {
  const out: Step[] = [];
  let rank = 0;
  for (const p of rates.peaks ?? []) {
    if (p.clients <= 0) continue;
    out.push({ from: rank + 1, to: rank + p.clients, peak: p.peak });
    rank += p.clients;
  }
  return out;
}

/** A logarithmic scale from [low, high] to [a, b]. */
export function log(low: number, high: number, a: number, b: number): { at: (v: number) => number; back: (x: number) => number } {
  const l = Math.log(low);
  const width = Math.max(Math.log(high) - l, 1e-9);
  return {
    at: (v) => a + ((Math.log(Math.max(v, low)) - l) / width) * (b - a),
    back: (x) => Math.exp(l + ((x - a) / (b - a)) * width),
  };
}

/** Round numbers of a logarithmic axis. */
export function ticks(low: number, high: number, most: number): number[] {
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    const out: number[] = [];
    for (let ten = 10 ** Math.floor(Math.log10(low)); ten <= high; ten *= 10) {
      for (const d of digits) if (d * ten >= low && d * ten <= high) out.push(d * ten);
    }
    if (out.length <= most) return out;
  }
  const tens: number[] = [];
  const every = Math.ceil(Math.log10(high / low) / most);
  for (let e = Math.ceil(Math.log10(low)); 10 ** e <= high; e += every) tens.push(10 ** e);
  return tens;
}
