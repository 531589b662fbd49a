// The programs of the README, as printed but for the addresses.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { LimitedError } from "../index.js";
import { Script } from "./server.js";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const programs = [...readFileSync(at("../README.md"), "utf8").matchAll(/```js\n(.*?)```/gs)].map((m) => m[1]);
const packages = { "@weirlimit/client": at(".."), ky: at("../../../tools/fetch/node_modules/ky"), axios: at("../../../tools/fetch/node_modules/axios") };
const script = new Script();
let url, folder;

before(async () => {
  url = await script.listen();
  folder = mkdtempSync(join(tmpdir(), "weir"));
  mkdirSync(join(folder, "node_modules", "@weirlimit"), { recursive: true });
  for (const [name, path] of Object.entries(packages)) symlinkSync(path, join(folder, "node_modules", name), "dir");
});

after(() => {
  script.close();
  rmSync(folder, { recursive: true });
});

/** run runs the text of a module. */
function run(name, text) {
  const file = join(folder, `${name}.mjs`);
  writeFileSync(file, text);
  return import(pathToFileURL(file));
}

test("a service is asked", async () => {
  script.replies = [{ say: "refused" }];
  const text = programs[0].replace("new Client({", `new Client({ url: "${url}", budget: 5000,`);
  const { refused } = await run("service", `export const refused = [];\nconst refuse = (ms) => refused.push(ms);\n${text}`);
  assert.deepEqual(refused, [10_000]);
});

assert.equal(programs.length, 4);
for (const [i, text] of programs.slice(1).entries()) {
  const missing = Object.entries(packages).find(([name, path]) => text.includes(`from "${name}"`) && !existsSync(path));
  const skip = missing && process.env.WEIR_REQUIRE_SERVERS !== "1" && `${missing[0]} is not installed: make servers`;
  test(`an API is asked by program ${i + 1}`, { skip }, async () => {
    assert.ok(text.split("\n").length <= 11);
    script.replies = [{ json: [7], headers: { "Content-Type": "application/json", RateLimit: '"a";r=0;t=3600' } }];
    script.calls = 0;
    const again = text.match(/const orders = (.*);/)[1];
    const program = await run(`api${i}`, `${text}export { orders };\nexport const again = async () => ${again};\n`.replaceAll("https://api.example.com", url));
    assert.deepEqual(program.orders, [7]);
    // The API has nothing left.
    await assert.rejects(program.again(), (err) => err instanceof LimitedError || err.cause instanceof LimitedError);
    assert.equal(script.calls, 1);
  });
}
