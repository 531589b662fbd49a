import asyncio
import io
import json
import math
import random
import unittest
import urllib.error
import urllib.request

from weirlimit import AsyncClient, Check, Client, Decision, LimitedError, LimitHandler, Options, RequestError, Throttle
from weirlimit._checks import read_decision, read_json
from weirlimit._fields import wait_of
from weirlimit._guards import MAX_REMEMBERED, Refusals
from weirlimit._guards import Throttle as Guard
from weirlimit._http import ProtocolError, Response

from .server import CONFORMANCE, Clock, Script, away, load


class PartsTest(unittest.TestCase):
    def test_fields_are_read_as_the_other_clients_read_it(self):
        cases = load("browser", "test", "fields.json")
        self.assertGreater(len(cases), 60)
        for c in cases:
            headers = {k.lower(): v for k, v in c["fields"].items()}
            self.assertEqual(wait_of(c["status"], headers, 1_700_000_000) * 1000, c["wait"], c)
        head = Response(100)
        head.feed(b'HTTP/1.1 200 OK\r\nRateLimit: "a";r=0;t=1\r\nRateLimit: "b";r=0;t=2\r\nContent-Length: 0\r\n\r\n')
        self.assertEqual(wait_of(200, head.headers, 0), 2)
        for n, want in ((64, 1), (65, 0)):
            self.assertEqual(wait_of(200, {"ratelimit": ",".join(['"a";r=0;t=1'] * n)}, 0), want)
        self.assertEqual(wait_of(200, {"ratelimit": '"a";r=0;t=1;x="%s"' % ("x" * 8192)}, 0), 0)

    def test_throttles_of_all_clients_refuse_alike(self):
        for c in CONFORMANCE["throttle"]:
            h = Guard(Throttle(**c["options"]))
            for at, drawn, times, want in c["begins"]:
                sent = 0
                for _ in range(times):
                    ticket, ok = h.begin(at, drawn)
                    sent += ok
                    if ok and c.get("accept"):
                        h.accept(ticket)
                self.assertEqual(sent, want, (c["name"], at, drawn, times))

    def test_remembered_refusals_are_bounded_and_the_latest_is_kept(self):
        m, d = Refusals(), Decision(False, retry_after=3600)
        for i in range(3 * MAX_REMEMBERED):
            m.remember(i, 1, d, 0, 3600)
            self.assertLessEqual(len(m), MAX_REMEMBERED)
        self.assertEqual(m.find(3 * MAX_REMEMBERED - 1, 1, 1).source, "remembered")

    def test_a_response_that_is_mutilated_reads_or_is_an_error(self):
        rng = random.Random(7)
        body = json.dumps(CONFORMANCE["bodies"]["refused"]).encode()
        heads = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
                 b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(body), body),
                 b"HTTP/1.0 200 OK\r\n\r\n" + body]
        pieces = [b"", b"-", b"null", b"{}", b"1e999", b"\r\n", b"\0", b"\xff", b"Content-Length: 7\r\n", b"99999999999999999999"]
        whole = 0
        for i in range(20_000):
            text = rng.choice(heads)
            if i >= 300:  # the first are as they are
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice(pieces) + text[at + rng.randrange(12):]
            res = Response(1 << 20)
            try:
                for at in range(0, len(text), 97):
                    if not res.done:
                        res.feed(text[at:at + 97])
                if not res.done:
                    res.feed(b"")
                d = read_decision(read_json(bytes(res.body)))
            except (ProtocolError, ValueError):
                self.assertGreaterEqual(i, 300, text)
                continue
            whole += 1
            for wait in (d.delay, d.retry_after, d.reset_after):
                self.assertGreaterEqual(wait, 0)
        self.assertGreater(whole, 300)

    def test_a_response_is_bounded(self):
        for text in (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 2000,
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 2000, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101,
                     b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"):
            res = Response(100)
            with self.assertRaises(ProtocolError, msg=text[:80]):
                res.feed(text)
        res = Response(100)
        res.feed(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n\r\n" + b"x" * 101)
        self.assertEqual((res.done, res.keep, bytes(res.body)), (True, False, b""))

    def test_options_out_of_range_are_errors(self):
        for opt in ({"url": "localhost:8080"}, {"url": "ftp://x"}, {"url": "http://x/?a=1"}, {"url": "http://x/#a"}, {"url": "http://u:p@x"},
                    {"url": "http://x:99999"}, {"url": "http://x/\r\nA: b"}, {"headers": {"A": "b\r\nC: d"}}, {"fallback": "open"}, {"budget": 0},
                    {"probe": -1}, {"probe": 40}, {"budget": 70}, {"throttle": Throttle(ratio=0.5)}, {"throttle": Throttle(ratio=math.nan)},
                    {"throttle": Throttle(window=0.1)}):
            with self.assertRaises(ValueError, msg=opt):
                Options(**opt)

    def test_a_function_decides_while_the_service_is_away(self):
        asked = []

        def decide(check, peek):
            asked.append((check.entries["user"], peek))
            return check.entries["user"] == "ann"

        async def decide_later(check, peek):
            return decide(check, peek)

        with Client(Options(url=away(), fallback=decide)) as client:
            ann, bob = client.check({"user": "ann"}), client.peek({"user": "bob"})
            self.assertEqual((ann.allowed, ann.source, ann.degraded, bob.allowed), (True, "local", True, False))
            self.assertEqual(client.counters()["local"], 2)

        async def later():
            async with AsyncClient(Options(url=away(), fallback=decide_later)) as client:
                return await client.check({"user": "ann"})

        self.assertTrue(asyncio.run(later()).allowed)
        self.assertEqual(asked, [("ann", False), ("bob", True), ("ann", False)])

    def test_a_caller_that_has_gone_shows_nothing_about_the_service(self):
        script = Script()

        async def go():
            async with AsyncClient(Options(url=script.url + "/limits/", headers={"Authorization": "Bearer abc"}, budget=5, clock=Clock())) as client:
                script.replies = [{"hang": True}]
                for _ in range(8):
                    call = asyncio.ensure_future(client.check({"user": "ann"}))
                    await asyncio.sleep(0)
                    call.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await call
                self.assertEqual((client.counters()["breaker_open"], client.counters()["in_flight"]), (False, 0))
                script.replies = [{"say": "allowed"}]
                self.assertEqual((await client.check({"user": "ann"})).source, "service")
                self.assertEqual(script.request["path"], "/limits/v1/check")

        try:
            asyncio.run(go())
        finally:
            script.close()

    def test_texts_that_are_not_utf8_or_no_texts_are_not_sent(self):
        with Client() as client:
            for check in ({"user": "\ud800"}, {"user": 7}, Check({"user": "ann"}, cost=True)):
                with self.assertRaises(RequestError) as caught:
                    client.check(check)
                self.assertEqual(caught.exception.status, 400)

    def test_a_handler_sends_a_request_again_that_it_can_read_again(self):
        script, clock = Script(), Clock()
        try:
            opener = urllib.request.build_opener(LimitHandler(retries=1, clock=clock))
            refusal = {"status": 429, "headers": {"Retry-After": "2"}}
            for data, sent in ((b"1", 2), (io.BytesIO(b"1"), 1)):
                script.replies, script.calls = [refusal, {"body": "hello"}], 0
                request = urllib.request.Request(script.url + "/x", data, {"Content-Length": "1"}, method="PUT")
                try:
                    with opener.open(request) as res:
                        self.assertEqual(res.read(), b"hello")
                except urllib.error.HTTPError as err:
                    err.close()
                    self.assertEqual(err.code, 429)
                self.assertEqual(script.calls, sent)
                clock.time += 60
            # The same request may be opened anew, also after a failure: it waits anew then.
            request = urllib.request.Request(script.url + "/x")
            script.replies = [{"close": True}]
            with self.assertRaises(OSError):
                opener.open(request)
            clock.time += 3600
            for _ in range(2):
                script.replies = [refusal, {"body": "hello"}]
                with opener.open(request) as res:
                    self.assertEqual(res.read(), b"hello")
        finally:
            script.close()

    def test_hosts_of_a_handler_are_bounded(self):
        h = LimitHandler(max_wait=-1, clock=Clock())
        for i in range(4200):
            h._pacer._pause(f"h{i}", 1000.0, 1.0 + i)
            h.http_request(urllib.request.Request(f"http://g{i}/"))
        self.assertEqual((len(h._pacer._until), len(h._pacer._guards)), (4096, 4096))
        h.http_request(urllib.request.Request("http://h0/"))
        with self.assertRaises(urllib.error.URLError) as caught:
            h.http_request(urllib.request.Request("http://user@H4199?x"))
        self.assertIsInstance(caught.exception, LimitedError)
        self.assertEqual(str(caught.exception), "weir: h4199 asked to be left alone: retry after 4200.0 s")
        self.assertEqual((caught.exception.key, caught.exception.retry_after, caught.exception.throttled), ("h4199", 4200.0, False))

    def test_options_of_a_handler_out_of_range_are_errors(self):
        for options in ({"max_waiting": 0}, {"max_pause": -1}, {"retries": -1}, {"throttle": Throttle(ratio=0)}):
            with self.assertRaises(ValueError, msg=str(options)):
                LimitHandler(**options)
