/** Entries of a descriptor, in their order. */
export type Entries = Readonly<Record<string, string>> | ReadonlyArray<readonly [key: string, value: string]>;

/** What limits are matched against. */
export interface Descriptor {
  entries: Entries;
  /** What this descriptor costs. Default: the check's cost. */
  cost?: number;
  /** Looks without spending. */
  peek?: boolean;
}

/** A question: may this pass? Of one descriptor by entries, or of several by descriptors. */
export interface Check {
  /** Names the set of rules. Default: the client's domain. */
  domain?: string;
  entries?: Entries;
  descriptors?: readonly Descriptor[];
  /** Units, to 2^53. Default: 1. */
  cost?: number;
  /** For limits that keep units for higher priorities, 1 and up; the higher the number the lower the priority. */
  priority?: number;
  /** Names the unit of work for concurrency limits. */
  lease?: string;
  /** Names the call: check and reserve charge it once within an hour, however often they are called with it. */
  idempotencyKey?: string;
}

export interface Limit {
  name: string;
  count: number;
  burst: number;
  /** Milliseconds. */
  period: number;
  algorithm: string;
}

/** What one limit said of a request. */
export interface Outcome {
  limit: Limit | null;
  /** enforce, soft, shadow, own, pool, always, ban or deny. */
  role: string;
  cost: number;
  allowed: boolean;
  charged: boolean;
  remaining: number;
  /** Milliseconds; Infinity if waiting does not help. */
  retryAfter: number;
  resetAfter: number;
}

export interface Decision {
  /** The request may pass, after delay. */
  allowed: boolean;
  /** How many milliseconds an allowed request is to wait before it proceeds. */
  delay: number;
  /** The least wait in milliseconds after which the same request may pass; Infinity if waiting does not help. */
  retryAfter: number;
  /** The tightest limit; null if none applies. */
  limit: Limit | null;
  /** Units that are left under it; null if that is not known. */
  remaining: number | null;
  /** Milliseconds until nothing is spent under it. */
  resetAfter: number;
  /** Allowed above a soft limit. */
  soft: boolean;
  /** Allowed from a shared pool. */
  borrowed: boolean;
  /** Charged before, under its idempotencyKey, and now nothing. */
  repeated: boolean;
  limits: Outcome[];
  /** Who decided: the service, the service earlier, the fallback function, or the fallback policy. */
  source: "service" | "remembered" | "local" | "policy";
  /** This may not be what the limits say: the service or its store did not answer. */
  degraded: boolean;
  /** Why the service did not decide, where it should have. */
  cause: UnavailableError | null;
}

/** A question that the service will not answer, now or later. Nothing was counted. */
export class RequestError extends Error {
  /** That of HTTP: 400 malformed, 409 and 410 settled or expired, 421 of another region, 422 not what the limits allow. */
  readonly status: number;
  readonly detail: string;
  /** For programs: INVALID_ARGUMENT, SETTLED, EXPIRED, REGION, UNSUPPORTED, TOO_LARGE, ...; empty where the client found it. */
  readonly code: string;
  /** What the reservation came to, where the code is SETTLED. */
  readonly settled: Settlement | null;
  constructor(status: number, detail: string, problem?: object);
}

/** A wait that would be too long. */
export class RefusedError extends Error {
  readonly decision: Decision;
  constructor(decision: Decision);
}

/** A call that the service did not answer. */
export class UnavailableError extends Error {
  readonly reason: "open" | "throttled" | "in_flight" | "timeout" | "busy" | "failure";
  /** For how many milliseconds the service is left alone. */
  readonly left: number;
  /** What a busy service asked for, in milliseconds. */
  readonly retryAfter: number;
  /** The service was asked, and what it was asked may have been done. */
  readonly sent: boolean;
  constructor(reason: string, detail: string, options?: { cause?: unknown });
}

/** A request that a fetch of throttledFetch did not send. */
export class LimitedError extends Error {
  /** What the request would have spent from, see FetchOptions.key. */
  readonly key: string;
  /** The least wait in milliseconds after which it may be sent; 0 if that is not known. */
  readonly retryAfter: number;
  /** The key refuses or fails many requests. Else it asked to be left alone. */
  readonly throttled: boolean;
  constructor(key: string, retryAfter: number, throttled: boolean);
}

/** Times are milliseconds. */
export interface FetchOptions {
  /** Sends the requests. Default: Node's fetch. */
  fetch?: (request: Request) => Promise<Response>;
  /** Names what a request spends from. Default: the host of its URL. */
  key?: (request: Request) => string;
  /** The longest that a request waits, over all its attempts; negative: none waits. Default: 10,000. */
  maxWait?: number;
  /** How many may wait at a time. Default: 1024. */
  maxWaiting?: number;
  /** The longest that a key is left alone. Default: 3,600,000. */
  maxPause?: number;
  /** How often a request is sent again that was answered 429, or 503 if its method may be repeated. Default: 0. */
  retries?: number;
  /** How a key is spared that refuses or fails many requests; false sends whatever the answers were. */
  throttle?: ThrottleOptions | false;
  /** Default: the process's. */
  clock?: Clock;
}

/** Returns a fetch that leaves alone the hosts that ask for it, and asks those less that refuse or fail many requests. */
export function throttledFetch(options?: FetchOptions): typeof globalThis.fetch;

/** What a fallback function returns: whether the check is allowed, or more of a decision. */
export type Local = boolean | (Partial<Decision> & { allowed: boolean });

export interface ThrottleOptions {
  /** How many calls are sent for each that is answered, 1 to 1000. Default: 2. */
  ratio?: number;
  /** How many milliseconds a call counts. Default: 120,000. */
  window?: number;
  /** How many calls the window must hold before any is refused. Default: 10. */
  least?: number;
  /** The longest time in milliseconds for which nothing is sent. Default: 1000. */
  probe?: number;
}

export interface Clock {
  /** Milliseconds that do not jump. */
  now(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Times are milliseconds. */
export interface Options {
  /** Default: http://localhost:8080. */
  url?: string;
  /** Sent with each call. */
  headers?: Record<string, string>;
  /** Asked by checks that name none. Default: the service's own. */
  domain?: string;
  /** What is decided while the service does not answer. Default: allow. */
  fallback?: "allow" | "deny" | ((check: Check, how: { peek: boolean }) => Local | Promise<Local>);
  /** The longest that one call takes, connecting included, and never more than half of its timeout. Default: 100. */
  budget?: number;
  /** Calls under way at a time. Default: 1024. */
  maxInFlight?: number;
  /** How long the service is left alone once it is taken to be away; doubles to maxProbe. Default: 1000. */
  probe?: number;
  /** Default: 30,000. */
  maxProbe?: number;
  /** The longest that a refusal is answered without asking again; negative for never. Default: 60,000. */
  maxRemember?: number;
  /** The longest that wait waits. Default: 10,000. */
  maxWait?: number;
  /** How many may wait at a time. Default: 1024. */
  maxWaiting?: number;
  throttle?: ThrottleOptions;
  /** Told once when checks are decided without the service, at most once a minute, and once when it answers again. Default: console. */
  log?: { warn(message: string): void; info(message: string): void };
  /** Called when the circuit breaker opens and closes. */
  onBreaker?: (state: { open: boolean; retryIn: number; error: UnavailableError | null }) => void;
  /** Sends the calls. Default: Node's fetch. */
  fetch?: typeof globalThis.fetch;
  /** Default: the process's. */
  clock?: Clock;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** How many milliseconds the caller has. Default: as many as the client's options say. */
  timeout?: number;
}

export interface Reservation {
  decision: Decision;
  /** Empty if it was refused, or decided without the service: then there is nothing to settle. */
  handle: string;
  /** When it can no longer be settled. */
  expires: Date | null;
}

export interface Settlement {
  reserved: number;
  actual: number;
}

export interface Lease {
  readonly check: Check;
  /** The service may hold it. */
  readonly remote: boolean;
}

/** What a client has counted, to be published. */
export interface Counters {
  calls: number;
  failures: number;
  timeouts: number;
  overloaded: number;
  caller_errors: number;
  deny_cache_hits: number;
  breaker_rejected: number;
  throttled: number;
  in_flight_rejected: number;
  breaker_opened: number;
  allowed: number;
  denied: number;
  local: number;
  lost_leases: number;
  in_flight: number;
  breaker_open: boolean;
}

/** Asks a service. Neither a refusal nor an unavailable service is an error. */
export class Client {
  constructor(options?: Options);
  /** Spends one unit of a client's, as POST /shouldAllowRequest does. */
  shouldAllow(clientID: string, options?: CallOptions): Promise<Decision>;
  /** Asks whether a request may pass, and spends what it costs if so. Throws a RequestError where the check is at fault. */
  check(check: Check, options?: CallOptions): Promise<Decision>;
  /** As check, but spends nothing. */
  peek(check: Check, options?: CallOptions): Promise<Decision>;
  /** Asks up to 1000 checks at once. */
  checkAll(checks: readonly Check[], options?: CallOptions): Promise<Decision[]>;
  /** As check, but waits until the request may pass. Throws a RefusedError where that would be too long. */
  wait(check: Check, options?: CallOptions): Promise<Decision>;
  /** Spends an estimate, for a request whose cost is known only afterwards. */
  reserve(check: Check, options?: CallOptions): Promise<Reservation>;
  /** Settles a reservation by what was used. Throws an UnavailableError where that was not heard. */
  commit(reservation: Pick<Reservation, "handle">, actual: number, options?: CallOptions): Promise<Settlement>;
  /** Settles a reservation by giving all of it back. */
  cancel(reservation: Pick<Reservation, "handle">, options?: CallOptions): Promise<Settlement>;
  /** Takes a permit of the concurrency limits that a check meets; lease is null if the decision refuses. */
  acquire(check: Check, options?: CallOptions): Promise<{ decision: Decision; lease: Lease | null }>;
  /** Holds a lease for another period. */
  renew(lease: Lease, options?: CallOptions): Promise<{ decision: Decision; lease: Lease | null }>;
  /** Ends a lease. */
  release(lease: Lease | null, options?: CallOptions): Promise<boolean>;
  counters(): Counters;
}
