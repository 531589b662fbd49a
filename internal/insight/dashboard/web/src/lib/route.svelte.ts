/** Where the page is: all of its state is in the address. */

const base = "/ui";

/** What is the same on all pages and goes along from one to the next. */
const shared = ["from", "to", "domain", "rule", "limit", "tier", "path", "agent", "key", "node", "region", "outcome", "mode", "utc", "live"];

/** What belongs to the page that a link leads to, not to the one it leaves. */
const own = ["rule", "limit", "key", "domain"];

class Route {
  path = $state("/");
  params = $state<Record<string, string>>({});

  constructor() {
    this.read();
    window.addEventListener("popstate", () => this.read());
  }

  private read(): void {
    this.path = location.pathname.slice(base.length).replace(/\/+$/, "") || "/";
    this.params = Object.fromEntries(new URLSearchParams(location.search));
  }

  get(name: string): string {
    return this.params[name] ?? "";
  }

  /** Changes parameters of this page; an empty one goes. */
  set(changes: Record<string, string | undefined>, replace = false): void {
    const params = { ...this.params };
    for (const [k, v] of Object.entries(changes)) {
      if (v) params[k] = v;
      else delete params[k];
    }
    this.go(href(this.path, params), replace);
  }

  go(to: string, replace = false): void {
    if (to === location.pathname + location.search) return;
    if (replace) history.replaceState(null, "", to);
    else history.pushState(null, "", to);
    this.read();
  }
}

function href(path: string, params: Record<string, string | undefined>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) if (v) q.set(k, v);
  const text = q.toString();
  return base + path + (text ? "?" + text : "");
}

export const route = new Route();

/** The address of a page, with the range and the filters of this one. */
export function link(path: string, params: Record<string, string | undefined> = {}, keep = shared): string {
  const kept: Record<string, string | undefined> = {};
  for (const name of keep) kept[name] = route.params[name];
  return href(path, { ...kept, ...params });
}

/** The address of a page about one thing: the filters do not go along. */
export function about(path: string, params: Record<string, string | undefined>): string {
  return link(path, params, shared.filter((name) => ["from", "to", "utc", "live"].includes(name) && !own.includes(name)));
}

/** Follows a link of the page without loading it anew. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const a = (event.target as Element).closest("a");
  if (!a || a.target || a.hasAttribute("download") || a.origin !== location.origin || !a.pathname.startsWith(base + "/")) return;
  if (a.hash && a.pathname === location.pathname && a.search === location.search) return;
  event.preventDefault();
  const elsewhere = a.pathname !== location.pathname;
  route.go(a.pathname + a.search);
  if (elsewhere) {
    window.scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}
