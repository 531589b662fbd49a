"""The cases that every client passes. WEIR names the command."""

import asyncio
import json
import logging
import math
import os
import threading
import unittest
import urllib.error
import urllib.request

from weirlimit import AsyncClient, Check, Client, LimitedError, LimitHandler, Options, RefusedError, RequestError, Reservation, Throttle, UnavailableError

from .server import CONFORMANCE, Clock, Script, Weir, away

COMMAND = os.environ.get("WEIR")


class Sync:
    """Makes calls of a Client, and sends requests by urllib."""

    def __init__(self, options, transport):
        self.client = Client(options)
        self.opener = urllib.request.build_opener(LimitHandler(**transport))

    def send(self, method, url, data):
        """Sends a request and returns the status of the response."""
        try:
            with self.opener.open(urllib.request.Request(url, data, method=method)) as res:
                return res.status
        except urllib.error.HTTPError as err:
            with err:
                return err.code

    def call(self, name, *args):
        return getattr(self.client, name)(*args)

    def together(self, n, name, *args):
        threads = [threading.Thread(target=self.call, args=(name, *args)) for _ in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def close(self):
        self.client.close()


class Async(Sync):
    """Makes calls of an AsyncClient, in a loop of its own."""

    def __init__(self, options, transport):
        super().__init__(options, transport)
        self.loop = asyncio.new_event_loop()
        self.client = AsyncClient(options)

    def call(self, name, *args):
        return self.loop.run_until_complete(getattr(self.client, name)(*args))

    def together(self, n, name, *args):
        async def all_of_them():
            await asyncio.gather(*(getattr(self.client, name)(*args) for _ in range(n)))

        self.loop.run_until_complete(all_of_them())

    def close(self):
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


class Cases:
    """Runs cases in a TestCase."""

    maxDiff = None

    def run_all(self, make, cases=CONFORMANCE["cases"]):
        for case in cases:
            if case["server"] == "weir" and not COMMAND:
                continue
            with self.subTest(case["name"]):
                server = {"weir": lambda: Weir(COMMAND), "script": Script, "away": lambda: None}[case["server"]]()
                try:
                    for reply in case.get("each", [None]):
                        with self.subTest(str(reply)[:100]):
                            self.run_case(make, case, server, reply)
                finally:
                    if server:
                        server.close()

    def run_case(self, make, case, server, reply):
        r = Run(self, make, server, case.get("options", {}), case.get("transport", {}))
        if reply:
            server.replies = [reply]
        try:
            for i, step in enumerate(case["steps"]):
                r.step(step, f"step {i}")
        finally:
            r.way.close()


class ConformanceTest(Cases, unittest.TestCase):
    def test_sync(self):
        self.run_all(Sync)

    def test_async(self):
        self.run_all(Async)


class Logged(logging.Handler):
    """Collects the levels of what is logged."""

    def __init__(self):
        super().__init__()
        self.levels = []

    def emit(self, record):
        self.levels.append(record.levelname.lower())


class Run:
    """Runs the steps of one case."""

    def __init__(self, test, make, server, options, transport):
        self.test, self.script, self.clock = test, server if isinstance(server, Script) else None, Clock()
        if self.script:
            self.script.calls = 0
        self.held = {}  # reservations and leases
        self.logged = Logged()
        log = logging.getLogger("weirlimit")
        log.handlers, log.propagate, log.level = [self.logged], False, logging.INFO
        options = {"budget": 5, **options}
        if "throttle" in options:
            options["throttle"] = Throttle(**options["throttle"])
        transport = dict(transport)
        if transport.pop("no_throttle", False):
            transport["throttle"] = None
        elif "throttle" in transport:
            transport["throttle"] = Throttle(**transport["throttle"])
        self.way = make(Options(url=server.url if server else away(), clock=self.clock, **options), {"clock": self.clock, **transport})

    def step(self, step, where):
        if "answer" in step or "answers" in step:
            self.script.replies = [step["answer"]] if "answer" in step else list(step["answers"])
            return
        if "advance" in step:
            self.clock.time += step["advance"]
            return
        want = step["expect"]
        if "together" in step:
            self.way.together(step["together"], step["do"], check_of(step["check"]))
        for n in range(step.get("times", 1)):
            got = {}
            if "do" in step and "together" not in step:
                start = self.clock.time
                try:
                    got = self.ask(step)
                except (RefusedError, RequestError, UnavailableError) as err:
                    if "error" not in want and "refused" not in want:
                        raise
                    got = failure(err)
                got["slept"] = self.clock.time - start
            got["counters"] = self.way.client.counters()
            got["logged"] = self.logged.levels
            if self.script:
                got.update(calls=self.script.calls, request=self.script.request)
            k = differs(want, got)
            self.test.assertIsNone(k, f"{where}, time {n}: {k} of {got}, want {want}")

    def ask(self, step):
        """Makes the call of a step, and returns what is expected of."""
        do, key, timeout = step["do"], step.get("as", ""), step.get("timeout")
        if do == "should_allow":
            return facts(self.way.call(do, step["client_id"], timeout))
        if do == "check_all":
            checks = [check_of(k) for k in step["checks"]] * step.get("copies", 1)
            return {"all": [facts(d) for d in self.way.call(do, checks, timeout)]}
        if do in ("check", "peek", "wait"):
            return facts(self.way.call(do, check_of(step["check"]), timeout))
        if do == "reserve":
            r = self.held["reservation", key] = self.way.call(do, check_of(step["check"]), timeout)
            return {**facts(r.decision), "handle": r.handle != ""}
        if do in ("commit", "cancel"):
            r = Reservation(None, step["handle"]) if "handle" in step else self.held["reservation", key]
            s = self.way.call(do, r, *([step["actual"]] if do == "commit" else []), timeout)
            return {"reserved": s.reserved, "actual": s.actual}
        if do in ("acquire", "renew"):
            of = check_of(step["check"]) if do == "acquire" else self.held["lease", key]
            d, self.held["lease", key] = self.way.call(do, of, timeout)
            return {**facts(d), "handle": self.held["lease", key] is not None}
        if do == "send":
            return self.send(step)
        if do == "release":
            return {"released": self.way.call(do, self.held["lease", key], timeout)}
        raise ValueError(f"nothing does {do}")

    def send(self, step):
        """Sends a request to any path."""
        data = json.dumps(step["body"]).encode() if "body" in step else None
        try:
            return {"status": self.way.send(step["method"], self.script.url + "/any", data)}
        except LimitedError as err:
            return {"limited": {"retry_after": err.retry_after, "throttled": err.throttled}}


def check_of(k):
    return Check(**{**k, "entries": [tuple(e) for e in k["entries"]]})


def facts(d):
    def seconds(s):
        return "never" if s == math.inf else s

    return {
        "allowed": d.allowed, "repeated": d.repeated, "source": d.source, "degraded": d.degraded, "delay": d.delay, "retry_after": seconds(d.retry_after),
        "reset_after": seconds(d.reset_after), "remaining": "unknown" if d.remaining is None else d.remaining,
        "algorithm": d.limit.algorithm if d.limit else "none", "cause": d.cause.reason if d.cause else "none",
    }


def failure(err):
    if isinstance(err, RefusedError):
        return {**facts(err.decision), "refused": True}
    if isinstance(err, RequestError):
        settled = {} if err.settled is None else {"reserved": err.settled.reserved, "actual": err.settled.actual}
        return {"error": {"status": err.status, "detail": err.detail, "code": err.code, **settled}}
    return {"error": {"detail": str(err)}}


def differs(want, got):
    """Returns the first key of want that got does not have or has another value of."""
    return next((k for k in want if not fits(k, want[k], got.get(k))), None)


def fits(k, want, got):
    if k == "body":
        return want == got
    if isinstance(want, dict):
        return isinstance(got, dict) and differs(want, got) is None
    if isinstance(want, list):
        if isinstance(got, list):
            return len(got) == len(want) and all(fits("", w, g) for w, g in zip(want, got))
        return got is not None and want[0] - 1e-6 <= got <= want[1] + 1e-6
    if isinstance(want, bool) or isinstance(want, str):
        return want == got or (k == "detail" and want in str(got))
    return isinstance(got, (int, float)) and abs(got - want) <= 1e-6


if __name__ == "__main__":
    unittest.main()
