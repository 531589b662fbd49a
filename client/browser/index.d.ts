/** A limit, as an answer tells it. What it does not tell is left out. */
export interface Limit {
  /** Name of the policy; empty where the fields have none. */
  name: string;
  /** Units that are left. */
  remaining: number;
  /** Seconds until there are more. */
  resetAfter?: number;
  /** Units in all. */
  quota?: number;
  /** Seconds that the quota is for. */
  window?: number;
}

/** What is read of an answer: a Response, or anything with its status and headers. */
export interface Answer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
}

/**
 * What an answer says of the limits that it met, the tightest first. Empty if it
 * says nothing, or came from a cache.
 *
 * @param now milliseconds since the epoch, for fields that hold a date.
 */
export function limitsOf(response: Answer, now?: number): Limit[];

/** For how many milliseconds an answer asks to be left alone; 0 if it does not. */
export function waitOf(response: Answer, now?: number): number;

/** The error of a request that was not sent. */
export class LimitedError extends Error {
  readonly name: "LimitedError";
  /** Who asked to be left alone. */
  readonly key: string;
  /** For how many milliseconds yet. */
  readonly retryAfter: number;
  constructor(key: string, retryAfter: number);
}

export interface FetchOptions {
  /** Sends requests. Default: the page's fetch. */
  fetch?: typeof globalThis.fetch;
  /** The longest that a request waits, in ms; one that would have to is refused at once. 0: none waits. Default: 10,000. */
  maxWait?: number;
  /** How many requests may wait at a time. Default: 100. */
  maxWaiting?: number;
  /** The longest that anybody is left alone, in ms. Default: an hour. */
  maxPause?: number;
  /** How often a request is sent again that was answered 429, or 503 if it may be repeated. Default: 0. */
  retries?: number;
  /** By up to which share of it waits are longer, at random, within 5 s. Default: 0.25. */
  jitter?: number;
  /** What is left alone when an answer asks for it. Default: the origin. */
  key?: (request: Request) => string;
  /** Told when a request waits or is refused. */
  onLimited?: (limited: { key: string; retryAfter: number; request: Request }) => void;
}

/** A fetch that leaves alone who asks for it: requests wait, or are refused with a LimitedError. */
export function throttledFetch(options?: FetchOptions): (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;

export interface ThrottleOptions {
  /** By up to which share of it waits are longer, at random, within 5 s. Default: 0.25. */
  jitter?: number;
  /** Words: what stands beside a button that waits for that many seconds, and what is said when it is free. */
  text?: { wait?: (seconds: number) => string; free?: () => string };
  /** A live region to speak through. Default: one is put behind the button. */
  status?: HTMLElement;
}

/** A button that waits as answers say. */
export interface Throttled {
  /** The button cannot be pressed. */
  readonly waiting: boolean;
  /** For how many milliseconds yet. */
  readonly retryAfter: number;
  /** Makes it wait for that many milliseconds at least. */
  hold(milliseconds: number): void;
  /** Makes it wait as an answer says, and returns for how many milliseconds. */
  heed(response: Answer): number;
  /** Ends the waiting. */
  release(): void;
  /** Leaves the button as it was before. */
  destroy(): void;
}

/**
 * Makes a button wait as answers say.
 *
 * @param action what a press does; the button heeds the answer that it returns, and waits for a LimitedError that it throws. Without it, call heed.
 */
export function throttle(
  button: HTMLButtonElement | HTMLInputElement,
  action?: ((event: Event) => Promise<Answer | void> | Answer | void) | null,
  options?: ThrottleOptions,
): Throttled;
