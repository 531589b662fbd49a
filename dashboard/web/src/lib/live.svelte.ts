import type { Limit } from "./types.ts";

/** What a node tells of itself every second: `event: state` of /v1/live. */
export interface LiveState {
  at?: string;
  node?: string;
  uptime_s?: number;
  decisions_per_s?: number;
  limits?: ({ counts: Record<string, number> | null } & Limit)[] | null;
  top?: (Limit & { key: string; refused: number; error?: number })[] | null;
  loss?: { dropped: number; discarded: number; rollups: number; failed: number };
  degraded?: boolean;
  store_away?: boolean;
  [more: string]: unknown;
}

/** A record of the stream: see docs/events.md. */
export interface LiveRecord extends Limit {
  first: string;
  last: string;
  key?: string;
  plain?: boolean;
  outcome: string;
  count: number;
  decisive: number;
  about?: { path?: string; method?: string; address?: string };
}

/** How many seconds are shown. */
const seconds = 120;
const records = 30;

/** The stream of what happens now, on the node that serves the page. */
class Live {
  status = $state<"off" | "opening" | "on" | "away">("off");
  state = $state.raw<LiveState | undefined>();
  history = $state.raw<{ at: number; counts: Record<string, number>; total: number }[]>([]);
  records = $state.raw<LiveRecord[]>([]);
  missed = $state(0);
  private source?: EventSource;

  /** Listens while on; returns what ends it. */
  follow(on: boolean): () => void {
    if (!on) {
      this.status = "off";
      return () => {};
    }
    this.status = "opening";
    const source = new EventSource("/v1/live");
    this.source = source;
    source.onopen = () => {
      if (this.source === source) this.status = "on";
    };
    source.onerror = () => {
      // The browser tries again by itself, unless the answer was an error.
      if (this.source === source) this.status = "away";
    };
    source.addEventListener("state", (e) => this.hear(JSON.parse(e.data) as LiveState));
    source.addEventListener("record", (e) => this.record(JSON.parse(e.data) as LiveRecord));
    source.addEventListener("missed", (e) => (this.missed += missedOf(e.data)));
    return () => {
      source.close();
      if (this.source === source) this.source = undefined;
    };
  }

  private hear(state: LiveState): void {
    this.state = state;
    this.status = "on";
    const counts: Record<string, number> = {};
    for (const l of state.limits ?? []) {
      for (const [word, n] of Object.entries(l.counts ?? {})) counts[word] = (counts[word] ?? 0) + n;
    }
    let total = 0;
    for (const [word, n] of Object.entries(counts)) if (word !== "estimated" && word !== "degraded") total += n;
    this.history = [...this.history, { at: Date.now(), counts, total }].slice(-seconds);
  }

  private record(r: LiveRecord): void {
    if (r.outcome === "allowed" || r.count === 0) return;
    this.records = [r, ...this.records].slice(0, records);
  }
}

function missedOf(data: string): number {
  try {
    const v: unknown = JSON.parse(data);
    if (typeof v === "number") return v;
    const n = (v as { missed?: unknown }).missed;
    return typeof n === "number" ? n : 0;
  } catch {
    return 0;
  }
}

export const live = new Live();
