"""What every way to ask any API does, apart from how it sends."""

from __future__ import annotations

import inspect
import threading
import time
from contextlib import closing
from typing import Any, Dict, Generator, Mapping, Optional, Type
from urllib.parse import urlsplit

from ._fields import wait_of
from ._guards import Throttle as Guard
from ._options import Options, Throttle
from ._types import LimitedError
from ._waiting import later

_MAX_KEYS = 4096


class Clock:
    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


class Trip:
    """A request and its repetitions."""

    def __init__(self, key: str, end: float) -> None:
        self.key, self.end, self.attempt = key, end, 0
        self.guard: Optional[Guard] = None
        self.ticket = 0


class Pacer:
    """Decides when a request may be sent, by the responses to earlier ones. Safe for concurrent use.

    A request is a trip; each attempt of it is a wait, then a response or a forget.
    """

    def __init__(
        self, max_wait: float, max_waiting: int, max_pause: float, retries: int, throttle: Optional[Throttle], clock: Any,
        error: Type[LimitedError] = LimitedError,
    ) -> None:
        if not (max_waiting > 0 and max_pause > 0 and retries >= 0):
            raise ValueError("max_waiting and max_pause must be above zero, and retries not below: set max_wait to -1 to disable waiting")
        if throttle is not None:
            Options(throttle=throttle)  # raises where one is out of range
        self._max_wait, self._max_waiting, self._max_pause, self._retries = max(max_wait, 0.0), max_waiting, max_pause, retries
        self._throttle, self._clock, self._error = throttle, clock, error
        self._origin = clock.now()
        self._lock = threading.Lock()
        self._until: Dict[str, float] = {}
        self._guards: Dict[str, Guard] = {}
        self._waiting = 0

    def trip(self, key: str) -> Trip:
        return Trip(key, self._clock.now() + self._max_wait)

    def wait(self, trip: Trip) -> None:
        """Waits until a request may be sent. Raises a LimitedError where it is not to be."""
        with closing(self._begin(trip)) as waits:
            for seconds in waits:
                self._clock.sleep(seconds)

    async def wait_async(self, trip: Trip) -> None:
        with closing(self._begin(trip)) as waits:
            for seconds in waits:
                slept = self._clock.sleep(seconds)
                if inspect.isawaitable(slept):
                    await slept

    def response(self, trip: Trip, status: int, headers: Mapping[str, str], method: str, body_is_kept: bool, has_key: bool) -> bool:
        """Learns from a response, and reports whether the request is to be sent again after a wait.

        Names of headers are in lower case. has_key: the request has an Idempotency-Key.
        """
        wait = min(wait_of(status, headers, time.time()), self._max_pause)
        now = self._clock.now()
        with self._lock:
            if trip.guard is not None and status != 429 and status < 500:
                trip.guard.accept(trip.ticket)
            if wait > 0:
                self._pause(trip.key, now, wait)
        if wait == 0 or trip.attempt >= self._retries or wait > trip.end - now or not (body_is_kept and _may_repeat(status, method, has_key)):
            return False
        trip.attempt += 1
        return True

    def forget(self, trip: Trip) -> None:
        """Takes back that a request was sent: its caller has gone, which says nothing of the API."""
        with self._lock:
            if trip.guard is not None:
                trip.guard.forget(trip.ticket)

    def _begin(self, trip: Trip) -> Generator[float, None, None]:
        """Yields how long to sleep until the key is no longer to be left alone, and counts a request."""
        while True:
            now = self._clock.now()
            with self._lock:
                left = self._until.get(trip.key, now) - now
                if left <= 0:
                    self._until.pop(trip.key, None)
                    break
                if left > trip.end - now or self._waiting >= self._max_waiting:
                    raise self._error(trip.key, left, False)
                self._waiting += 1
            try:
                yield later(left, trip.end - now)
            finally:
                with self._lock:
                    self._waiting -= 1
        if self._throttle is not None:
            self._count(trip, self._throttle)

    def _count(self, trip: Trip, throttle: Throttle) -> None:
        with self._lock:
            if trip.key not in self._guards and len(self._guards) >= _MAX_KEYS:
                del self._guards[next(iter(self._guards))]  # what is known of it is learnt again within some requests
            trip.guard = self._guards.setdefault(trip.key, Guard(throttle))
            trip.ticket, ok = trip.guard.begin(self._clock.now() - self._origin)
        if not ok:
            raise self._error(trip.key, 0.0, True)

    def _pause(self, key: str, now: float, wait: float) -> None:
        """Leaves a key alone. When too many keys are, the one that would be free first is."""
        self._until[key] = max(self._until.get(key, 0.0), now + wait)
        if len(self._until) > _MAX_KEYS:
            self._until = {k: until for k, until in self._until.items() if until > now}
        if len(self._until) > _MAX_KEYS:
            del self._until[min(self._until, key=self._until.__getitem__)]


def host_of(url: str) -> str:
    """Returns the host and the port that a URL names."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def _may_repeat(status: int, method: str, has_key: bool) -> bool:
    """What was answered 429 was not served; of a 503 that is not known."""
    return status == 429 or (status == 503 and (has_key or method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")))
