// What the tests talk to.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const at = (path) => new URL(path, import.meta.url);

export const conformance = JSON.parse(readFileSync(at("../../testdata/conformance.json"), "utf8"));
export const fields = JSON.parse(readFileSync(at("../../browser/test/fields.json"), "utf8"));

/** Script answers as a conformance case says. */
export class Script {
  replies = [];
  calls = 0;
  request = null;

  async listen() {
    this.server = createServer((req, res) => this.answer(req, res));
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }

  async answer(req, res) {
    let text = "";
    for await (const part of req) text += part;
    this.calls++;
    this.request = { path: req.url, body: JSON.parse(text || "null") };
    const r = this.replies.shift() ?? { status: 418 };
    this.replies.push(r);
    if (r.raw || r.close) {
      if (r.raw) req.socket.write(r.raw);
      if (!r.hang) req.socket.end();
      return;
    }
    if (r.hang) return;
    if (r.problem) res.setHeader("Content-Type", "application/problem+json");
    for (const [k, v] of Object.entries(r.headers ?? {})) res.setHeader(k, v);
    res.statusCode = r.status ?? 200;
    res.end(bodyOf(r));
  }
}

function bodyOf({ say, results, json, problem, body = "", pad }) {
  const { bodies } = conformance;
  if (say) return JSON.stringify(bodies[say]);
  if (results) return JSON.stringify({ results: results.map((name) => bodies[name]) });
  if (problem || json) return JSON.stringify(problem ?? json);
  return pad ? body + pad[0].repeat(pad[1]) : body;
}

/** away returns the URL of a port where nobody listens. */
export async function away() {
  const s = new Script();
  const url = await s.listen();
  s.close();
  return url;
}

/** weir starts the command with the rules of the cases. */
export function weir(command) {
  const dir = mkdtempSync(join(tmpdir(), "weir-"));
  const rules = join(dir, "rules.yaml");
  writeFileSync(rules, conformance.rules);
  const p = spawn(command, ["serve", "--rules", rules, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc", "", "--log-format", "json"], { stdio: ["ignore", "pipe", "pipe"] });
  const close = () => {
    p.kill();
    rmSync(dir, { recursive: true });
  };
  let said = "";
  return new Promise((resolve, reject) => {
    const listen = (chunk) => {
      said += chunk;
      for (const line of said.split("\n")) {
        if (!line.startsWith("{") || !line.endsWith("}")) continue;
        const { msg, section, addr } = JSON.parse(line);
        if (msg === "listening" && section === "http") resolve({ url: `http://${addr}`, close });
      }
    };
    p.stdout.on("data", listen);
    p.stderr.on("data", listen);
    p.on("exit", () => reject(new Error(said)));
  });
}

/** Clock stands still but for what is slept. */
export class Clock {
  time = 1000;
  now() {
    return this.time;
  }
  async sleep(ms) {
    this.time += ms;
  }
}
