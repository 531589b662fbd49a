"""What the tests talk to."""

import json
import os
import socket
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = os.path.dirname(os.path.abspath(__file__))


def load(*path):
    with open(os.path.join(HERE, "..", "..", *path), encoding="utf-8") as f:
        return json.load(f)


CONFORMANCE = load("testdata", "conformance.json")


class Script:
    """Answers as a conformance case says."""

    def __init__(self):
        self.replies, self.calls, self.request = [], 0, None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            log_message = lambda *_: None

            def do_POST(self):
                script.answer(self)

            do_GET = do_PUT = do_POST

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a client may have gone
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = "http://127.0.0.1:%d" % self._server.server_address[1]

    def close(self):
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, h):
        body = json.loads(h.rfile.read(int(h.headers.get("Content-Length", 0))) or "null")
        with self._lock:
            self.calls += 1
            self.request = {"path": h.path, "body": body}
            r = self.replies.pop(0) if self.replies else {"status": 418}
            self.replies.append(r)
        if r.get("raw") or r.get("close") or r.get("hang"):
            h.wfile.write(r.get("raw", "").encode())
            if r.get("hang"):
                self._closed.wait()
            h.close_connection = True
            return
        text = body_of(r).encode()
        h.send_response_only(r.get("status", 200))
        if "problem" in r:
            h.send_header("Content-Type", "application/problem+json")
        for k, v in r.get("headers", {}).items():
            h.send_header(k, v)
        h.send_header("Content-Length", str(len(text)))
        h.end_headers()
        h.wfile.write(text)



def body_of(r):
    bodies = CONFORMANCE["bodies"]
    if "say" in r:
        return json.dumps(bodies[r["say"]])
    if "results" in r:
        return json.dumps({"results": [bodies[name] for name in r["results"]]})
    for k in ("problem", "json"):
        if k in r:
            return json.dumps(r[k])
    pad = r.get("pad", ["", 0])
    return r.get("body", "") + pad[0] * pad[1]


def away():
    """Returns the URL of a port where nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "http://127.0.0.1:%d" % s.getsockname()[1]


class Weir:
    """The command with the rules of the cases."""

    def __init__(self, command):
        self._dir = tempfile.TemporaryDirectory()
        rules = os.path.join(self._dir.name, "rules.yaml")
        with open(rules, "w", encoding="utf-8") as f:
            f.write(CONFORMANCE["rules"])
        args = ["serve", "--rules", rules, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc", "", "--log-format", "json"]
        self._process = subprocess.Popen([command, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self._process.stderr:
            said.append(line)
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("msg") == "listening" and entry.get("section") == "http":
                self.url = "http://" + entry["addr"]
                break
        else:
            self.close()
            raise RuntimeError("".join(said))
        # So that it does not wait for who reads what it says.
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._dir.cleanup()


class Clock:
    """Stands still but for what is slept."""

    def __init__(self):
        self.time = 1000.0

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
