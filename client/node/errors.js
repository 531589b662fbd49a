/** RequestError is a question that the service will not answer, now or later. Nothing was counted. */
export class RequestError extends Error {
  constructor(status, detail, problem = {}) {
    super(`weir: ${detail} (status ${status})`);
    this.name = "RequestError";
    this.status = status;
    this.detail = detail;
    const { code, reserved, actual } = problem;
    /** code says it for programs; empty where the client found it. */
    this.code = typeof code === "string" ? code : "";
    /** settled is what a reservation came to that was settled before, or null. */
    this.settled = Number.isInteger(reserved) && Number.isInteger(actual) ? { reserved, actual } : null;
  }
}

/** RefusedError is the error of a wait that would be too long. */
export class RefusedError extends Error {
  constructor(decision) {
    const by = decision.limit ? `limit "${decision.limit.name}"` : "the service";
    const wait = Math.max(decision.retryAfter, decision.delay);
    super(`weir: refused by ${by}${wait === Infinity ? ", whatever the wait" : `: retry after ${wait / 1000} s`}`);
    this.name = "RefusedError";
    this.decision = decision;
  }
}

/**
 * UnavailableError is a call that the service did not answer. Its reason is open, throttled
 * or in_flight where the call was not made, and timeout, busy or failure where it was.
 */
export class UnavailableError extends Error {
  constructor(reason, detail, options) {
    super(`weir: ${detail}`, options);
    this.name = "UnavailableError";
    this.reason = reason;
    /** left is for how many milliseconds the service is left alone. */
    this.left = 0;
    /** retryAfter is what a busy service asked for, in milliseconds. */
    this.retryAfter = 0;
  }

  /** sent: the service was asked, and what it was asked may have been done. */
  get sent() {
    return this.reason === "timeout" || this.reason === "failure";
  }
}

/** LimitedError is the error of a request that was not sent: see throttledFetch. */
export class LimitedError extends Error {
  constructor(key, retryAfter, throttled) {
    super(`weir: ${throttled ? `${key} refuses or fails many requests: this one was not sent` : `${key} asked to be left alone: retry after ${retryAfter / 1000} s`}`);
    this.name = "LimitedError";
    this.key = key;
    /** retryAfter is in milliseconds, 0 where it is not known. */
    this.retryAfter = retryAfter;
    this.throttled = throttled;
  }
}
