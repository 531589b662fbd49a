import type { Params } from "./api.ts";
import { route } from "./route.svelte.ts";
import { range, usual } from "./range.ts";
import { clock } from "./clock.svelte.ts";

/** Filters that every question about figures takes. */
export const filters = ["domain", "rule", "limit", "tier", "path", "agent", "key", "node", "outcome", "mode"] as const;

/** The range and the filters of the page as parameters of a question. */
export function scope(more: Params = {}, without: readonly string[] = []): Params {
  const out: Params = { from: route.get("from") || usual, to: route.get("to") || undefined };
  for (const name of filters) {
    if (!without.includes(name)) out[name] = route.get(name) || undefined;
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
