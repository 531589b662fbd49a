"""Transports of httpx that ask any API as that wants to be asked."""

from __future__ import annotations

from typing import Any, Callable, Optional

import anyio
import httpx

from . import _types
from ._options import Throttle
from ._pacer import Clock, Pacer, Trip, host_of


class LimitedError(_types.LimitedError, httpx.TransportError):
    """A request that a transport of this module did not send."""


class _AsyncClock:
    now = Clock.now
    sleep = staticmethod(anyio.sleep)


class LimitTransport(httpx.BaseTransport):
    """A transport for httpx.Client, with the options of LimitHandler. Safe for use by many threads.

    transport sends the requests; None means httpx.HTTPTransport().
    """

    def __init__(
        self, transport: Optional[httpx.BaseTransport] = None, *, max_wait: float = 10.0, max_waiting: int = 1024, max_pause: float = 3600.0,
        retries: int = 0, throttle: Optional[Throttle] = Throttle(), key: Optional[Callable[[httpx.Request], str]] = None, clock: Any = None,
    ) -> None:
        self._transport = transport or httpx.HTTPTransport()
        self._pacer = Pacer(max_wait, max_waiting, max_pause, retries, throttle, clock or Clock, LimitedError)
        self._key = key or _host

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        trip = self._pacer.trip(self._key(request))
        while True:
            self._pacer.wait(trip)
            response = self._transport.handle_request(request)
            if not _again(self._pacer, trip, request, response):
                return response
            response.close()

    def close(self) -> None:
        self._transport.close()


class AsyncLimitTransport(httpx.AsyncBaseTransport):
    """A transport for httpx.AsyncClient, on asyncio or trio. See LimitTransport."""

    def __init__(
        self, transport: Optional[httpx.AsyncBaseTransport] = None, *, max_wait: float = 10.0, max_waiting: int = 1024, max_pause: float = 3600.0,
        retries: int = 0, throttle: Optional[Throttle] = Throttle(), key: Optional[Callable[[httpx.Request], str]] = None, clock: Any = None,
    ) -> None:
        self._transport = transport or httpx.AsyncHTTPTransport()
        self._pacer = Pacer(max_wait, max_waiting, max_pause, retries, throttle, clock or _AsyncClock, LimitedError)
        self._key = key or _host

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        trip = self._pacer.trip(self._key(request))
        while True:
            await self._pacer.wait_async(trip)
            try:
                response = await self._transport.handle_async_request(request)
            except anyio.get_cancelled_exc_class():
                self._pacer.forget(trip)
                raise
            if not _again(self._pacer, trip, request, response):
                return response
            await response.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()


def _host(request: httpx.Request) -> str:
    return host_of(str(request.url))


def _again(pacer: Pacer, trip: Trip, request: httpx.Request, response: httpx.Response) -> bool:
    body_is_kept = isinstance(request.stream, httpx.ByteStream)
    return pacer.response(trip, response.status_code, dict(response.headers), request.method, body_is_kept, "Idempotency-Key" in request.headers)
