import type { Limit } from "./types.ts";

/** What a node tells of itself every second: `event: state` of /v1/live. */
export interface LiveState {
  node: string;
  region?: string;
  time: string;
  uptime_ms: number;
  /** The time that all counts are of. */
  span_ms: number;
  decisions_per_second: number;
  refusals_per_second: number;
  /** Requests, each counted once however many limits it met. */
  requests_per_second: number;
  refused_requests_per_second: number;
  counts: Record<string, number> | null;
  totals: Record<string, number> | null;
  limits: LiveLimit[] | null;
  omitted?: number;
  top: (Limit & { key: string; refused: number; error?: number })[] | null;
  loss: { dropped: number; discarded: number; rollups: number; failed: number };
  backlog: number;
  queue_up: boolean;
  degraded: boolean;
  store_up: boolean;
  /** What else is wrong, a sentence each. */
  alarms?: string[];
}

/** A limit on the node: in the span, and since the node started. */
export interface LiveLimit extends Limit {
  counts: Record<string, number> | null;
  totals: Record<string, number> | null;
}

/** A record of the stream: see docs/reference/events.md. */
export interface LiveRecord extends Limit {
  first: string;
  last: string;
  key?: string;
  plain?: boolean;
  outcome: string;
  count: number;
  decided: number;
  about?: { path?: string; method?: string; address?: string };
}

/** What is heard: the state, and records of what was limited. */
const stream = "/v1/live?kind=state&kind=record&outcome=refused&outcome=shadow_refused&outcome=delayed&outcome=soft";

/** When a stream that is refused is asked for again, in milliseconds. */
const retry = 10_000;

/** How many seconds are shown. */
const seconds = 120;
const records = 30;

/** The stream of what happens now, on the node that serves the page. */
class Live {
  status = $state<"off" | "opening" | "on" | "away">("off");
  state = $state.raw<LiveState | undefined>();
  history = $state.raw<{ at: number; requests: number; refused: number; decisions: number; shadow: number }[]>([]);
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
    let over = false;
    let again: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      const source = new EventSource(stream);
      this.source = source;
      source.onopen = () => {
        if (this.source === source) this.status = "on";
      };
      source.onerror = () => {
        if (this.source !== source) return;
        this.status = "away";
        // A stream that broke off is opened again by the browser, one that was answered by an error is not.
        if (source.readyState === EventSource.CLOSED && !over) again = setTimeout(open, retry);
      };
      source.addEventListener("state", (e) => this.hear(JSON.parse(e.data) as LiveState));
      source.addEventListener("record", (e) => this.record(JSON.parse(e.data) as LiveRecord));
      source.addEventListener("missed", (e) => (this.missed += (JSON.parse(e.data) as { events: number }).events));
    };
    open();
    return () => {
      over = true;
      clearTimeout(again);
      this.source?.close();
      this.source = undefined;
    };
  }

  private hear(state: LiveState): void {
    this.state = state;
    this.status = "on";
    if (!state.span_ms) return;
    const at = Date.parse(state.time);
    if (this.history.at(-1)?.at === at) return;
    const shadow = (state.counts?.shadow_refused ?? 0) * (1000 / state.span_ms);
    this.history = [...this.history, { at, requests: state.requests_per_second, refused: state.refused_requests_per_second, decisions: state.decisions_per_second, shadow }].slice(-seconds);
  }

  private record(r: LiveRecord): void {
    if (r.outcome === "allowed" || r.count === 0) return;
    this.records = [r, ...this.records].slice(0, records);
  }
}

export const live = new Live();
