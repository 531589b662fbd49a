import { count, plural } from "./format.ts";
import type { ClientList, Incident, Overview } from "./types.ts";

interface Named {
  domain: string;
  rule: string;
  limit: string;
}

const id = (l: Named) => `${l.domain}\n${l.rule}\n${l.limit}`;

/** Verdicts of clients for whom a refusal is likely wrong: a shared address stands for many. */
const fair = ["likely_legitimate", "shared_address"];

/** How many clients of a limit have each verdict, the most common first. */
export function verdictsOf(list: ClientList | undefined, limit: Named): [string, number][] {
  const out = new Map<string, number>();
  for (const c of list?.clients ?? []) {
    if (c.verdict && id(c) === id(limit)) out.set(c.verdict.class, (out.get(c.verdict.class) ?? 0) + 1);
  }
  return [...out].sort((a, b) => b[1] - a[1]);
}

/** What refuses, and whom, in words. */
export function triage(o: Overview, clients: ClientList | undefined, asked: { past: boolean; places: boolean }): { now: string; who: string } {
  const refusing = (all: Incident[]) => new Set(all.filter((i) => i.refused > 0).map(id)).size;
  const limits = (n: number) => `${n === 0 ? "No limit" : plural(n, "limit")}`;
  const verb = (n: number) => (n > 1 ? "refuse" : "refuses");
  const all = o.incidents ?? [];
  const open = refusing(all.filter((i) => i.open));
  let now = `${limits(open)} ${verb(open)} now.`;
  // An interval of an hour or a day is no now.
  if (asked.past || o.coverage.grain !== "minute") now = `${limits(refusing(all))} refused anything in this time.`.replace(/^(\d.*) refused anything/, "$1 refused");
  else if (o.coverage.uncounted) now = "What refuses now is not counted yet.";

  const refused = o.requests?.refused ?? o.totals.counts?.refused ?? 0;
  if (!refused) return { now, who: "" };
  const what = o.requests ? plural(refused, "request") : plural(refused, "decision");
  // Clients are of all nodes.
  if (asked.places) return { now, who: `${what} refused.` };
  const judged = new Map<string, boolean>();
  for (const c of clients?.clients ?? []) {
    if (c.counts?.refused) judged.set(c.key, (judged.get(c.key) ?? false) || fair.includes(c.verdict?.class ?? ""));
  }
  const n = judged.size;
  if (!n) return { now, who: `${what} refused.` };
  const look = [...judged.values()].filter(Boolean).length;
  const complete = (clients?.total ?? 0) <= (clients?.clients?.length ?? 0) && !clients?.rest?.decisions;
  const legitimate = `${look === 0 ? "none" : count(look)} of them ${look === 1 ? "looks legitimate or shares" : "look legitimate or share"} an address`;
  return { now, who: complete ? `${what} of ${plural(n, "client")} refused; ${legitimate}.` : `${what} refused. Of the ${plural(n, "client")} refused most ${legitimate.replace(" of them", "")}.` };
}
