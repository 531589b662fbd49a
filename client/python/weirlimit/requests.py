"""An adapter of requests that asks any API as that wants to be asked."""

from __future__ import annotations

from typing import Any, Callable, Optional

from requests import PreparedRequest, RequestException, Response
from requests.adapters import HTTPAdapter

from . import _types
from ._options import Throttle
from ._pacer import Clock, Pacer, host_of


class LimitedError(_types.LimitedError, RequestException):
    """A request that a LimitAdapter did not send."""

    response = None
    request: Optional[PreparedRequest] = None


class LimitAdapter(HTTPAdapter):
    """An adapter for requests.Session.mount, with the options of LimitHandler. Safe for use by many threads.

    Further arguments are those of requests.adapters.HTTPAdapter.
    """

    def __init__(
        self, *, max_wait: float = 10.0, max_waiting: int = 1024, max_pause: float = 3600.0, retries: int = 0,
        throttle: Optional[Throttle] = Throttle(), key: Optional[Callable[[PreparedRequest], str]] = None, clock: Any = None, **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._pacer = Pacer(max_wait, max_waiting, max_pause, retries, throttle, clock or Clock, LimitedError)
        self._key = key or (lambda request: host_of(request.url or ""))

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        trip = self._pacer.trip(self._key(request))
        body_is_kept = request.body is None or isinstance(request.body, (bytes, str))
        while True:
            try:
                self._pacer.wait(trip)
            except LimitedError as err:
                err.request = request
                raise
            response = super().send(request, *args, **kwargs)
            headers = dict(response.headers.lower_items())
            if not self._pacer.response(trip, response.status_code, headers, request.method or "", body_is_kept, "Idempotency-Key" in request.headers):
                return response
            response.close()
