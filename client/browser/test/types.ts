// Checked by TypeScript, not run.
import { limitsOf, waitOf, throttle, throttledFetch, LimitedError, type Limit } from "../index.js";

const send: typeof fetch = throttledFetch({ maxWait: 5_000, retries: 1, onLimited: ({ key, retryAfter }) => console.log(key, retryAfter) });
const button = document.querySelector<HTMLButtonElement>("#send")!;
const throttled = throttle(button, async () => send("/order", { method: "POST" }), { text: { wait: (s) => `in ${s} s` } });
throttled.hold(1000);
const limits: Limit[] = limitsOf(new Response());
const wait: number = waitOf({ status: 429, headers: { get: () => null } });
try {
  await send("/");
} catch (err) {
  if (err instanceof LimitedError) throttled.hold(err.retryAfter);
}
throttle(button, null, { status: document.body }).destroy();
// @ts-expect-error: an option that there is not
throttledFetch({ maxwait: 1 });
export { limits, wait };
