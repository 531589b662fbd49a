"""The client for programs without an event loop."""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._checks import as_check
from ._core import Ask, Core, Sleep, Steps
from ._http import Response
from ._options import Options
from ._types import Check, Decision, Lease, Reservation, Settlement

_MAX_IDLE = 64


class _Clock:
    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


class Client:
    """Asks a service. Neither a refusal nor an unavailable service is an error. Safe for use by many threads.

    timeout is how many seconds the caller has; its calls take at most half of it.
    """

    def __init__(self, options: Options = Options()) -> None:
        self._clock = options.clock or _Clock
        self._core = Core(options, self._clock.now)
        self._connections = _Connections(self._core.host, self._core.port, _context(options, self._core.tls))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections."""
        self._connections.close()

    def counters(self) -> Dict[str, Any]:
        """Returns what has been counted, by the names that every client publishes."""
        return self._core.counters()

    def should_allow(self, client_id: str, timeout: Optional[float] = None) -> Decision:
        """Spends one unit of a client's, as POST /shouldAllowRequest does."""
        return self.check({"client_id": client_id}, timeout)

    def check(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Decision:
        """Asks whether a request may pass, and spends what it costs if so. Raises a RequestError where the check is at fault."""
        return self._run(self._core.check(as_check(check), False, timeout))

    def peek(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Decision:
        """As check, but spends nothing."""
        return self._run(self._core.check(as_check(check), True, timeout))

    def check_all(self, checks: Sequence[Union[Check, Mapping[str, str]]], timeout: Optional[float] = None) -> List[Decision]:
        """Asks up to 1000 checks at once; each is all or nothing in itself."""
        return self._run(self._core.check_all([as_check(k) for k in checks], timeout))

    def wait(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Decision:
        """As check, but waits until the request may pass. Raises a RefusedError where that would be too long."""
        return self._run(self._core.wait(as_check(check), timeout))

    def reserve(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Reservation:
        """Spends an estimate, for a request whose cost is known only afterwards."""
        return self._run(self._core.reserve(as_check(check), timeout))

    def commit(self, reservation: Reservation, actual: int, timeout: Optional[float] = None) -> Settlement:
        """Settles a reservation by what was used. Raises an UnavailableError where that was not heard."""
        return self._run(self._core.settle(reservation.handle, actual, timeout))

    def cancel(self, reservation: Reservation, timeout: Optional[float] = None) -> Settlement:
        """Settles a reservation by giving all of it back."""
        return self._run(self._core.settle(reservation.handle, None, timeout))

    def acquire(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Tuple[Decision, Optional[Lease]]:
        """Takes a permit of the concurrency limits that a check meets; the lease is None if the decision refuses."""
        return self._run(self._core.acquire(as_check(check), timeout))

    def renew(self, lease: Lease, timeout: Optional[float] = None) -> Tuple[Decision, Optional[Lease]]:
        """Holds a lease for another period, and charges no other limit."""
        return self._run(self._core.renew(lease, timeout))

    def release(self, lease: Optional[Lease], timeout: Optional[float] = None) -> bool:
        """Ends a lease, and reports whether it was held; None, or one that nobody holds, is no error."""
        return self._run(self._core.release(lease, timeout))

    def _run(self, steps: Steps) -> Any:
        try:
            step = next(steps)
            while True:
                try:
                    result = self._do(step)
                except BaseException as err:  # the core tells what it says of the service
                    step = steps.throw(err)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value

    def _do(self, step: Any) -> Any:
        if isinstance(step, Ask):
            return self._connections.exchange(step)
        if isinstance(step, Sleep):
            return self._clock.sleep(step.seconds)
        return self._core.opt.fallback(step.check, step.peek)  # type: ignore[operator]


def _context(options: Options, tls: bool) -> Optional[ssl.SSLContext]:
    return (options.ssl_context or ssl.create_default_context()) if tls else None


class _Connections:
    """Idle connections to one service."""

    def __init__(self, host: str, port: int, context: Optional[ssl.SSLContext]) -> None:
        self._host, self._port, self._context = host, port, context
        self._lock = threading.Lock()
        self._idle: List[socket.socket] = []
        self._pid = os.getpid()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for s in idle:
            s.close()

    def exchange(self, ask: Ask) -> Response:
        end = time.monotonic() + ask.budget

        def left() -> float:
            seconds = end - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("no time left")
            return seconds

        s = self._take() or self._connect(left())
        try:
            if self._context is not None and not isinstance(s, ssl.SSLSocket):
                s.settimeout(left())
                s = self._context.wrap_socket(s, server_hostname=self._host)
            s.settimeout(left())
            s.sendall(ask.request)
            res = Response(ask.most)
            while not res.done:
                s.settimeout(left())
                res.feed(s.recv(64 << 10))
        except BaseException:
            s.close()
            raise
        if res.keep:
            self._give(s)
        else:
            s.close()
        return res

    def _connect(self, timeout: float) -> socket.socket:
        s = socket.create_connection((self._host, self._port), timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def _take(self) -> Optional[socket.socket]:
        with self._lock:
            if self._pid != os.getpid():  # they are another process's
                self._pid, self._idle = os.getpid(), []
            while self._idle:
                s = self._idle.pop()
                if not _readable(s):
                    return s
                s.close()  # the other end has closed it, or says what nobody asked
        return None

    def _give(self, s: socket.socket) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(s)
                return
        s.close()


def _readable(s: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(s, selectors.EVENT_READ)
        return bool(selector.select(0))
