"""Requests to any API, as that wants to be asked."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, Optional
from urllib.request import BaseHandler, Request

from ._fields import wait_of
from ._guards import Throttle as Guard
from ._options import Options, Throttle
from ._types import LimitedError
from ._waiting import later

_MAX_KEYS = 4096
_DRAINED = 64 << 10


class _Clock:
    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


class _Trip:
    """A request and its repetitions."""

    def __init__(self, key: str, end: float) -> None:
        self.key, self.end, self.attempt = key, end, 0
        self.guard: Optional[Guard] = None
        self.ticket = 0


class LimitHandler(BaseHandler):
    """A handler for urllib.request.build_opener. Safe for use by many threads.

    A response of 429 or 503 with Retry-After, or one whose RateLimit fields say that nothing is
    left, makes the requests of its key, by default the host, wait until then and a little longer,
    or fail with a LimitedError where that is longer than max_wait. A key that refuses or fails
    many requests is asked less; throttle=None asks it whatever it answered. retries is how often
    a request is sent again that was answered 429, or 503 if its method may be repeated.
    """

    handler_order = 900  # before urllib makes an error of a status

    def __init__(
        self, max_wait: float = 10.0, max_waiting: int = 1024, max_pause: float = 3600.0, retries: int = 0,
        throttle: Optional[Throttle] = Throttle(), key: Optional[Callable[[Request], str]] = None, clock: Any = None,
    ) -> None:
        if not (max_waiting > 0 and max_pause > 0 and retries >= 0):
            raise ValueError("max_waiting and max_pause must be above zero, and retries not below: set max_wait to -1 to disable waiting")
        if throttle is not None:
            Options(throttle=throttle)  # raises where one is out of range
        self._max_wait, self._max_waiting, self._max_pause, self._retries = max(max_wait, 0.0), max_waiting, max_pause, retries
        self._throttle, self._key, self._clock = throttle, key or _host, clock or _Clock
        self._origin = self._clock.now()
        self._lock = threading.Lock()
        self._until: Dict[str, float] = {}
        self._guards: Dict[str, Guard] = {}
        self._waiting = 0

    def http_request(self, request: Request) -> Request:
        trip: Optional[_Trip] = request.__dict__.pop("_weir_next", None)
        if trip is None:
            trip = _Trip(self._key(request), self._clock.now() + self._max_wait)
        self._pass(trip)
        self._begin(trip)
        request.__dict__["_weir"] = trip
        return request

    def http_response(self, request: Request, response: Any) -> Any:
        trip: _Trip = request.__dict__.pop("_weir")
        status = response.status
        wait = min(wait_of(status, _lower(response.headers), time.time()), self._max_pause)
        now = self._clock.now()
        with self._lock:
            if trip.guard is not None and status != 429 and status < 500:
                trip.guard.accept(trip.ticket)
            if wait > 0:
                self._pause(trip.key, now, wait)
        if wait == 0 or trip.attempt >= self._retries or wait > trip.end - now or not _may_repeat(status, request):
            return response
        response.read(_DRAINED)
        response.close()
        trip.attempt += 1
        request.__dict__["_weir_next"] = trip
        return self.parent.open(request, timeout=request.timeout)  # type: ignore[attr-defined]

    https_request, https_response = http_request, http_response

    def _pass(self, trip: _Trip) -> None:
        """Waits until the key is no longer to be left alone."""
        while True:
            now = self._clock.now()
            with self._lock:
                left = self._until.get(trip.key, now) - now
                if left <= 0:
                    self._until.pop(trip.key, None)
                    return
                if left > trip.end - now or self._waiting >= self._max_waiting:
                    raise LimitedError(trip.key, left, False)
                self._waiting += 1
            try:
                self._clock.sleep(later(left, trip.end - now))
            finally:
                with self._lock:
                    self._waiting -= 1

    def _pause(self, key: str, now: float, wait: float) -> None:
        """Leaves a key alone. When too many keys are, the one that would be free first is."""
        self._until[key] = max(self._until.get(key, 0.0), now + wait)
        if len(self._until) > _MAX_KEYS:
            self._until = {k: until for k, until in self._until.items() if until > now}
        if len(self._until) > _MAX_KEYS:
            del self._until[min(self._until, key=self._until.__getitem__)]

    def _begin(self, trip: _Trip) -> None:
        """Counts a request, unless none are counted."""
        if self._throttle is None:
            return
        with self._lock:
            if trip.key not in self._guards and len(self._guards) >= _MAX_KEYS:
                del self._guards[next(iter(self._guards))]  # what is known of it is learnt again within some requests
            trip.guard = self._guards.setdefault(trip.key, Guard(self._throttle))
            trip.ticket, ok = trip.guard.begin(self._clock.now() - self._origin)
        if not ok:
            raise LimitedError(trip.key, 0.0, True)


def _host(request: Request) -> str:
    return request.full_url.split("/")[2].rpartition("@")[2].lower()


def _lower(headers: Any) -> Dict[str, str]:
    return {k.lower(): ", ".join(headers.get_all(k)) for k in headers.keys()}


def _may_repeat(status: int, request: Request) -> bool:
    """What was answered 429 was not served; of a 503 that is not known. A body must be readable again."""
    if request.data is not None and not isinstance(request.data, bytes):
        return False
    return status == 429 or (status == 503 and request.get_method() in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE"))
