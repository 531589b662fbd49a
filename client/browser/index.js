// What a web page needs to live with rate limits: see README.md.
export { limitsOf, waitOf } from "./fields.js";
export { throttledFetch, LimitedError } from "./fetch.js";
export { throttle } from "./button.js";
