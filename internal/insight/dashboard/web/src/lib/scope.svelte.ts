import type { Params } from "./api.ts";
import { route } from "./route.svelte.ts";
import { range, usual } from "./range.ts";
import { clock } from "./clock.svelte.ts";

/** Filters that go along from page to page. */
export const filters = ["domain", "rule", "limit", "tier", "path", "agent", "key", "node", "region", "outcome", "mode"] as const;

const ofLimits = ["domain", "rule", "limit", "mode"];
const ofClients = [...ofLimits, "key", "tier", "path", "agent"];

/** What the figures of a page can be filtered by: see the parameters in docs/reference/analytics.md. */
const takes: Record<string, readonly string[]> = {
  "/": filters,
  "/rules": ofLimits,
  "/rule": ["domain", "rule", "limit", "key", "tier", "path", "agent"],
  "/clients": ofClients,
  "/client": ["key"],
  "/accuracy": [...ofLimits, "key"],
  "/upstream": [...ofLimits, "node", "region"],
  "/system": [...ofLimits, "node", "region"],
};

/** Whether a filter holds on this page. */
export function holds(name: string): boolean {
  return (takes[route.path] ?? []).includes(name);
}

// What a page about one rule or one client is about is no filter there.
const about: Record<string, readonly string[]> = { "/rule": ["domain", "rule", "limit"], "/client": ["key"] };

/** The filters that are set. */
export function chosen(): string[] {
  return filters.filter((name) => route.get(name) && !about[route.path]?.includes(name));
}

/** The filters that are set and do not hold on this page. */
export function idle(): string[] {
  return chosen().filter((name) => !holds(name));
}

/** The range and the filters of the page as parameters of a question. */
export function scope(more: Params = {}): Params {
  const out: Params = { from: route.get("from") || usual, to: route.get("to") || undefined };
  for (const name of filters) {
    if (holds(name)) out[name] = route.get(name) || undefined;
  }
  return { ...out, ...more };
}

/** The range alone. */
export function span(more: Params = {}): Params {
  return { from: route.get("from") || usual, to: route.get("to") || undefined, ...more };
}

export function bounds(): { from: number; to: number } {
  return range(route.get("from"), route.get("to"), clock.now);
}

export function utc(): boolean {
  return route.get("utc") === "1";
}
