import { about } from "./route.svelte.ts";
import type { Entry, OverlayView } from "./types.ts";
import type { Item } from "../components/Menu.svelte";

/** What an operator is about to do. */
export type Verb = "inspect" | "ban" | "unban" | "allow" | "disallow" | "override" | "restore" | "grant" | "reset" | "mode";

export interface Wish {
  verb: Verb;
  domain: string;
  rule: string;
  limit: string;
  /** The key as events tell it; hashed unless plain. */
  key?: string;
  plain?: boolean;
  /** The entries that name the key, if they are known. */
  entries?: Entry[];
  /** A ban is of every request of the domain with the entry. */
  whole?: boolean;
  mode?: "shadow" | "enforce" | "off" | "none";
  percent?: number;
  allowance?: number;
  period?: string;
}

class Actions {
  wish = $state.raw<Wish | undefined>();
  private from: HTMLElement | null = null;

  ask(wish: Wish): void {
    this.from = document.activeElement as HTMLElement | null;
    this.wish = wish;
  }

  /** Ends the dialog; the focus goes back to where it came from. */
  close(): void {
    this.wish = undefined;
    if (this.from?.isConnected) this.from.focus();
  }
}

export const actions = new Actions();

/** What of the changes by operators may hold for a client: all that its hash cannot rule out. */
export function laidOver(all: OverlayView[] | null | undefined, c: { domain: string; limit: string; entries?: Entry[] }): OverlayView[] {
  const same = (a: Entry, b: Entry) => a.key === b.key && a.value === b.value;
  return (all ?? []).filter((v) => v.domain === c.domain && (v.kind === "ban_domain" || v.limit === c.limit) && (!c.entries || (v.entries ?? []).every((e) => c.entries?.some((x) => same(x, e)))));
}

/** What can be done to a client, given what operators changed for it already. */
export function choices(laid: OverlayView[]): Item[] {
  const has = (...kinds: string[]) => laid.some((v) => kinds.includes(v.kind));
  const offer = (group: string, all: [Verb, string, boolean?][]): Item[] =>
    all.filter(([, , applies]) => applies !== false).map(([value, name]) => ({ value, name, group, danger: value === "ban" }));
  return [
    ...offer("Loosen", [
      ["override", "Another limit…"],
      ["restore", "Take the override back", has("override")],
      ["grant", "Give units back…"],
      ["reset", "Reset the count"],
      ["allow", "Let pass…"],
      ["unban", "Lift the ban", has("ban", "ban_domain")],
    ]),
    ...offer("Refuse", [
      ["disallow", "Limit again", has("allow")],
      ["ban", "Ban…"],
    ]),
  ];
}

/** The words of a rule: a key, or a key with its value, from the outermost to the innermost. */
export function segments(rule: string): { key: string; value?: string }[] {
  const out: { key: string; value?: string }[] = [];
  for (const m of rule.matchAll(/("(?:[^"\\]|\\.)*"|[^"/=]+)(?:=("(?:[^"\\]|\\.)*"|[^"/]*))?/g)) {
    const text = m[2];
    out.push({ key: m[1]!.startsWith('"') ? unquote(m[1]!) : m[1]!, value: text === undefined ? undefined : text.startsWith('"') ? unquote(text) : text });
  }
  return out;
}

/** Text that Go has quoted: JSON does not know all of its escapes. */
function unquote(text: string): string {
  const json = text.replace(/\\(?:U([0-9a-f]{8})|x([0-9a-f]{2})|([av])|.)/g, (all, long, short, letter) =>
    long ? String.fromCodePoint(parseInt(long, 16)) : short ? `\\u00${short}` : letter ? (letter === "a" ? "\\u0007" : "\\u000b") : all);
  try {
    return JSON.parse(json) as string;
  } catch {
    return text.slice(1, -1);
  }
}

/** What the clients of a rule are named by: the last of its keys without a value. */
export function entryKey(rule: string): string {
  const all = segments(rule);
  return (all.findLast((s) => s.value === undefined) ?? all.at(-1))?.key ?? "";
}

/** The entries of a client, as far as the rule and its key tell them. */
export function entriesOf(rule: string, key?: string): Entry[] {
  const all = segments(rule);
  const open = all.filter((s) => s.value === undefined).length;
  return all.map((s) => ({ key: s.key, value: s.value ?? (open === 1 ? (key ?? "") : "") }));
}

/** The address of the page that explains a client, "" where its entries are not known. */
export function explained(domain: string, rule: string, key: string, plain: boolean): string {
  const entries = plain && key ? entriesOf(rule, key) : [];
  if (!entries.length || entries.some((e) => !e.value)) return "";
  return about("/explain", { domain, ask: writeEntries(entries) });
}

/** Entries as a command line writes them: key=value, one a line. */
export function writeEntries(entries: Entry[]): string {
  return entries.map((e) => `${e.key}=${e.value}`).join("\n");
}

export function readEntries(text: string): Entry[] | undefined {
  const out: Entry[] = [];
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    if (at < 1) return undefined;
    const entry = { key: line.slice(0, at).trim(), value: line.slice(at + 1) };
    if (!entry.value) return undefined;
    out.push(entry);
  }
  return out.length ? out : undefined;
}
