"""Requests by urllib to any API, as that wants to be asked."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional
from urllib.request import BaseHandler, Request

from ._options import Throttle
from ._pacer import Clock, Pacer, Trip, host_of

_DRAINED = 64 << 10


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
        self._pacer = Pacer(max_wait, max_waiting, max_pause, retries, throttle, clock or Clock)
        self._key = key or (lambda request: host_of(request.full_url))

    def http_request(self, request: Request) -> Request:
        trip: Trip = request.__dict__.pop("_weir_next", None) or self._pacer.trip(self._key(request))
        self._pacer.wait(trip)
        request.__dict__["_weir"] = trip
        return request

    def http_response(self, request: Request, response: Any) -> Any:
        trip: Trip = request.__dict__.pop("_weir")
        body_is_kept = request.data is None or isinstance(request.data, bytes)
        if not self._pacer.response(trip, response.status, _lower(response.headers), request.get_method(), body_is_kept, request.has_header("Idempotency-key")):
            return response
        response.read(_DRAINED)
        response.close()
        request.__dict__["_weir_next"] = trip
        return self.parent.open(request, timeout=request.timeout)  # type: ignore[attr-defined]

    https_request, https_response = http_request, http_response


def _lower(headers: Any) -> Dict[str, str]:
    return {k.lower(): ", ".join(headers.get_all(k)) for k in headers.keys()}
