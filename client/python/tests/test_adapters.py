"""The cases of any API, by requests and httpx."""

import io
import unittest
import warnings

try:
    import anyio
    import httpx
    import requests
    import trio
except ImportError as err:
    raise unittest.SkipTest(f"{err}: install requests, httpx and trio") from None

from weirlimit import LimitedError, Options
from weirlimit.httpx import AsyncLimitTransport, LimitTransport
from weirlimit.requests import LimitAdapter

from .server import CONFORMANCE, Clock, Script
from .test_conformance import Async, Cases, Sync

CASES = [c for c in CONFORMANCE["cases"] if any(s.get("do") == "send" for s in c["steps"])]


class Requests(Sync):
    def __init__(self, options, transport):
        super().__init__(options, {})
        self.session = requests.Session()
        self.session.mount("http://", LimitAdapter(**transport))

    def send(self, method, url, data):
        return self.session.request(method, url, data=data).status_code

    def close(self):
        super().close()
        self.session.close()


class Httpx(Sync):
    def __init__(self, options, transport):
        super().__init__(options, {})
        self.http = httpx.Client(transport=LimitTransport(**transport))

    def send(self, method, url, data):
        return self.http.request(method, url, content=data).status_code

    def close(self):
        super().close()
        self.http.close()


class AsyncHttpx(Async):
    def __init__(self, options, transport):
        super().__init__(options, {})
        self.http = httpx.AsyncClient(transport=AsyncLimitTransport(**transport))

    def send(self, method, url, data):
        body, headers = data, {}
        if isinstance(data, io.BytesIO):
            body, headers = pieces(data), {"Content-Length": str(len(data.getvalue()))}
        return self.loop.run_until_complete(self.http.request(method, url, content=body, headers=headers)).status_code

    def close(self):
        self.loop.run_until_complete(self.http.aclose())
        super().close()


async def pieces(data):
    yield data.read()


BACKENDS = ("asyncio", "trio")
REFUSAL = {"status": 429, "headers": {"Retry-After": "2"}}


class AdaptersTest(Cases, unittest.TestCase):
    def setUp(self):
        self.script, self.clock = Script(), Clock()
        self.addCleanup(self.script.close)

    def each(self, **transport):
        """Yields each way to send, with a clock of its own."""
        for make in (Requests, Httpx, AsyncHttpx):
            self.clock, self.script.calls = Clock(), 0
            with self.subTest(make.__name__):
                way = make(Options(), {"clock": self.clock, **transport})
                try:
                    yield way
                finally:
                    way.close()

    def test_requests(self):
        self.run_all(Requests, CASES)

    def test_httpx(self):
        self.run_all(Httpx, CASES)

    def test_async_httpx(self):
        self.run_all(AsyncHttpx, CASES)

    def test_a_body_that_can_be_read_once_is_sent_once(self):
        for way in self.each(retries=1):
            self.script.replies = [REFUSAL, {"body": "hello"}]
            self.assertEqual(way.send("PUT", self.script.url, b"1"), 200)
            self.script.replies, self.clock.time = [REFUSAL, {"body": "hello"}], 2000.0
            self.assertEqual(way.send("PUT", self.script.url, io.BytesIO(b"1")), 429)
            self.assertEqual((self.script.calls, self.script.request["body"]), (3, 1))

    def test_a_request_leaves_its_connection_to_its_repetition(self):
        limits = httpx.Limits(max_connections=1)
        one = {
            Requests: {"pool_maxsize": 1, "pool_block": True}, Httpx: {"transport": httpx.HTTPTransport(limits=limits)},
            AsyncHttpx: {"transport": httpx.AsyncHTTPTransport(limits=limits)},
        }
        for make, options in one.items():
            with self.subTest(make.__name__):
                way, self.script.replies = make(Options(), {"clock": self.clock, "retries": 1, **options}), [REFUSAL, {"body": "hello"}]
                self.assertEqual(way.send("GET", self.script.url, None), 200)
                way.close()

    def test_errors_are_those_of_the_library_too(self):
        for way in self.each(max_wait=-1, key=lambda request: "orders"):
            self.script.replies = [REFUSAL]
            way.send("GET", self.script.url, None)
            with self.assertRaises(LimitedError) as caught:
                way.send("GET", self.script.url + "/b", None)
            err = caught.exception
            self.assertIsInstance(err, requests.RequestException if isinstance(way, Requests) else httpx.TransportError)
            self.assertEqual((str(err), str(err.request.url)), ("weir: orders asked to be left alone: retry after 2.0 s", self.script.url + "/b"))

    def test_fields_of_several_lines_are_one(self):
        for way in self.each(max_wait=-1):
            self.script.replies = [{"raw": 'HTTP/1.1 200 OK\r\nRateLimit: "a";r=0;t=1\r\nRateLimit: "b";r=0;t=2\r\nContent-Length: 0\r\n\r\n'}]
            way.send("GET", self.script.url, None)
            with self.assertRaises(LimitedError) as caught:
                way.send("GET", self.script.url, None)
            self.assertEqual(caught.exception.retry_after, 2)

    def test_options_out_of_range_are_errors(self):
        for make in (LimitAdapter, LimitTransport, AsyncLimitTransport):
            with self.assertRaises(ValueError):
                make(max_waiting=0)

    def test_other_arguments_are_those_of_the_adapter_and_the_transport(self):
        self.assertEqual(LimitAdapter(pool_maxsize=7)._pool_maxsize, 7)
        with httpx.Client(transport=LimitTransport(httpx.MockTransport(lambda request: httpx.Response(204)))) as client:
            self.assertEqual(client.get("http://api.example/").status_code, 204)

    def test_a_caller_that_has_gone_shows_nothing_about_the_api(self):
        async def go():
            async with httpx.AsyncClient(transport=AsyncLimitTransport(clock=self.clock), timeout=None) as client:
                for n in range(1, 13):
                    async with anyio.create_task_group() as group:
                        group.start_soon(client.get, self.script.url)
                        while self.script.calls < n:
                            await anyio.sleep(0)
                        group.cancel_scope.cancel()
                self.script.replies = [{"body": "hello"}]
                self.assertEqual((await client.get(self.script.url)).status_code, 200)

        for backend in BACKENDS:
            self.script.calls, self.script.replies = 0, [{"hang": True}]
            self.run_on(backend, go)

    def test_a_caller_that_has_gone_waits_no_more(self):
        async def go():
            clock, started = Clock(), anyio.Event()

            async def sleep(seconds):
                started.set()
                await anyio.sleep_forever()

            async with httpx.AsyncClient(transport=AsyncLimitTransport(clock=clock, max_waiting=1)) as client:
                await client.get(self.script.url)
                clock.sleep = sleep
                async with anyio.create_task_group() as group:
                    group.start_soon(client.get, self.script.url)
                    await started.wait()
                    with self.assertRaises(LimitedError):  # another waits
                        await client.get(self.script.url)
                    group.cancel_scope.cancel()
                del clock.sleep
                self.assertEqual((await client.get(self.script.url)).status_code, 200)

        for backend in BACKENDS:
            self.script.replies = [REFUSAL, {"body": "hello"}]
            self.run_on(backend, go)

    def run_on(self, backend, go):
        with self.subTest(backend), warnings.catch_warnings():
            warnings.simplefilter("ignore", trio.TrioDeprecationWarning)  # of an anyio older than trio
            anyio.run(go, backend=backend)
