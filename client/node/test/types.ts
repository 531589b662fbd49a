import { Client, LimitedError, RefusedError, throttledFetch, type Decision } from "../index.js";

const client = new Client({ domain: "shop", fallback: (check) => check.cost === 1, budget: 50 });
const d: Decision = await client.check({ entries: { user: "ann" }, cost: 2 }, { timeout: 100 });
const wait: number = d.retryAfter + (d.remaining ?? 0);
const { lease } = await client.acquire({ descriptors: [{ entries: [["slots", "a"]] }] });
await client.release(lease);
const { handle } = await client.reserve({ entries: { tokens: "a" } });
await client.commit({ handle }, wait);
try {
  await client.wait({ entries: { user: "ann" } });
} catch (err) {
  if (err instanceof RefusedError) console.log(err.decision.limit?.name);
}
// @ts-expect-error an option that there is not
new Client({ budgett: 7 });
const send = throttledFetch({ retries: 2, throttle: false });
try {
  console.log((await send("https://api.example/", { method: "POST", body: "x" })).status);
} catch (err) {
  if (err instanceof LimitedError) console.log(err.key, err.retryAfter);
}
