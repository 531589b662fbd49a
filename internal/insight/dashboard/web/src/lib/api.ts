/** What kept a request from being answered, in words for the page. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }

  /** The service runs without what was asked for. */
  get off(): boolean {
    return this.status === 404 || this.status === 501;
  }
}

export type Params = Record<string, string | number | undefined>;

export function withQuery(path: string, params: Params = {}): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) {
    if (v !== undefined && v !== "") q.set(k, String(v));
  }
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

let csrf: Promise<string> | undefined;

interface Session {
  login: boolean;
  expires?: string;
  csrf?: string;
}

/** The session, asked for once: whether there is a login, and what changes must carry. */
export async function session(): Promise<Session> {
  return get<Session>("/ui/session");
}

function csrfOf(): Promise<string> {
  csrf ??= session().then(
    (s) => s.csrf ?? "",
    (err: unknown) => {
      csrf = undefined;
      throw err;
    },
  );
  return csrf;
}

/** Asks a path and reads its JSON. Throws an ApiError. */
export async function get<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> {
  return read<T>(await ask(withQuery(path, params), { signal }));
}

/** Sends JSON to a path and reads its JSON. Throws an ApiError. */
export async function send<T>(path: string, body: unknown, method = "POST", signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  const token = await csrfOf();
  if (token) headers["Weir-CSRF"] = token;
  return read<T>(await ask(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal }));
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  let res: Response;
  try {
    res = await fetch(path, { cache: "no-store", credentials: "same-origin", ...init });
  } catch (err) {
    if (err instanceof DOMException && err.name === "AbortError") throw err;
    throw new ApiError(0, "The service does not answer.");
  }
  if (res.status === 401) {
    // The session is over: the login leads back here.
    location.assign("/ui/login?next=" + encodeURIComponent(location.pathname + location.search));
  }
  return res;
}

async function read<T>(res: Response): Promise<T> {
  const text = await res.text();
  if (res.ok) return (text ? JSON.parse(text) : undefined) as T;
  throw new ApiError(res.status, problem(res, text));
}

/** The words of an answer that is an error: the detail of a problem document, or the text. */
function problem(res: Response, text: string): string {
  if (/json/.test(res.headers.get("Content-Type") ?? "")) {
    try {
      const doc = JSON.parse(text) as { detail?: string; title?: string };
      if (doc.detail ?? doc.title) return (doc.detail ?? doc.title)!;
    } catch {
      // Not JSON after all: the text says as much.
    }
  }
  return text.trim().slice(0, 500) || `${res.status} ${res.statusText}`;
}

/** Asks a path for text. Throws an ApiError. */
export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  const res = await ask(path, { signal });
  const text = await res.text();
  if (!res.ok) throw new ApiError(res.status, problem(res, text));
  return text;
}
