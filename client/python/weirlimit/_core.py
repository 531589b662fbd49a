"""What both clients do, apart from how they send and sleep.

A call is a generator. It yields an Ask, a Sleep or a Local, and is sent what came of it: a Response,
nothing, or what a fallback function returned; or thrown what went wrong.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import secrets
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Generator, Iterator, List, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from ._checks import as_int, as_list, as_object, as_text, as_time, identity, key_of, read_decision, read_json, write_check
from ._fields import wait_of
from ._guards import Breaker, OutageLog, Refusals, Throttle
from ._http import ProtocolError, Response, write_request
from ._options import Options, local_decision
from ._types import Check, Decision, Lease, RequestError, Reservation, Settlement, UnavailableError
from ._waiting import Waiter

_log = logging.getLogger("weirlimit")

_MAX_RESPONSE, _MAX_BATCH_RESPONSE = 1 << 20, 32 << 20
_MAX_CHECKS = 1000
_CALLERS_FAULTS = (400, 409, 410, 413, 421, 422, 501)


@dataclass(frozen=True)
class Ask:
    request: bytes
    most: int  # bytes of the response
    budget: float  # seconds


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Local:
    check: Check
    peek: bool


Steps = Generator[Any, Any, Any]


class Core:
    """Guards the calls of one client. Safe for concurrent use."""

    def __init__(self, opt: Options, now: Callable[[], float]) -> None:
        self.opt, self.now = opt, now
        url = urlsplit(opt.url)
        self.host, self.port, self.tls = url.hostname or "", url.port or (443 if url.scheme == "https" else 80), url.scheme == "https"
        self._netloc, self._path = url.netloc, url.path.rstrip("/")
        self._lock = threading.Lock()
        self._breaker, self._throttle, self._refusals = Breaker(opt.probe, opt.max_probe), Throttle(opt.throttle), Refusals()
        self._outages = OutageLog()
        self._origin = now()
        self.waiting = 0
        self._counts: Dict[str, int] = dict.fromkeys(
            ("calls", "failures", "timeouts", "overloaded", "caller_errors", "deny_cache_hits", "breaker_rejected", "throttled",
             "in_flight_rejected", "breaker_opened", "allowed", "denied", "local", "lost_leases", "in_flight"), 0)

    def counters(self) -> Dict[str, Any]:
        with self._lock:
            return {**self._counts, "breaker_open": self._breaker.state(self.now())[0]}

    def _count(self, name: str, n: int = 1) -> None:
        with self._lock:
            self._counts[name] += n

    def end(self, timeout: Optional[float]) -> float:
        return math.inf if timeout is None else self.now() + timeout

    def check(self, check: Check, peek: bool, timeout: Optional[float]) -> Steps:
        return (yield from self._decide([check], peek, self.end(timeout)))[0]

    def check_all(self, checks: Sequence[Check], timeout: Optional[float]) -> Steps:
        if not 1 <= len(checks) <= _MAX_CHECKS:
            raise RequestError(400, f"{len(checks)} checks: ask from 1 to {_MAX_CHECKS} at once")
        return (yield from self._decide(checks, False, self.end(timeout)))

    def wait(self, check: Check, timeout: Optional[float]) -> Steps:
        end = self.end(timeout)
        waiter = Waiter(self, min(self.now() + self.opt.max_wait, end))
        try:
            while True:
                d = (yield from self._decide([check], False, end))[0]
                if d.allowed:
                    if d.delay > 0:
                        late = replace(d, allowed=False, retry_after=d.delay)
                        yield Sleep(waiter.delay(d.delay, late))
                    return d
                yield Sleep(waiter.retry(d))
        finally:
            waiter.done()

    def enter(self) -> bool:
        """Takes one of max_waiting places."""
        with self._lock:
            if self.waiting >= self.opt.max_waiting:
                return False
            self.waiting += 1
            return True

    def leave(self) -> None:
        with self._lock:
            self.waiting -= 1

    def reserve(self, check: Check, timeout: Optional[float]) -> Steps:
        def read(res: Any) -> Reservation:
            d, handle = read_decision(res), as_text(res.get("handle"))
            if d.allowed != (handle != ""):
                raise ValueError("a reservation without a handle, or a handle without a reservation")
            return Reservation(d, handle, as_time(res.get("expires")) if handle else None)

        body = write_check(check, self.opt.domain)
        try:
            return (yield from self._call("/v1/reserve", body, _MAX_RESPONSE, self.end(timeout), read, key_of(check)))
        except UnavailableError as err:
            return Reservation((yield from self._without(err, check, False)))

    def settle(self, handle: str, actual: Optional[int], timeout: Optional[float]) -> Steps:
        if actual is not None and (type(actual) is not int or actual < 0):
            raise RequestError(400, "what was used must be an integer, zero or more")
        if not handle:
            return Settlement(0, actual or 0)
        path, body = ("/v1/cancel", {"handle": handle}) if actual is None else ("/v1/commit", {"handle": handle, "actual": actual})

        def read(res: Any) -> Settlement:
            o = as_object(res)
            return Settlement(as_int(o.get("reserved")), as_int(o.get("actual", 0)))

        s = yield from self._call(path, body, _MAX_RESPONSE, self.end(timeout), read)
        if s.actual < s.reserved:
            with self._lock:
                self._refusals.forget()
        return s

    def acquire(self, check: Check, timeout: Optional[float]) -> Steps:
        # Named here: a lease whose response is lost can be released.
        return self._keep("/v1/acquire", Lease(replace(check, lease=check.lease or secrets.token_hex(16)), False), timeout)

    def renew(self, lease: Lease, timeout: Optional[float]) -> Steps:
        return self._keep("/v1/renew", lease, timeout)

    def _keep(self, path: str, lease: Lease, timeout: Optional[float]) -> Steps:
        check = lease.check
        body = write_check(check, self.opt.domain)
        remote = True
        try:
            d = yield from self._call(path, body, _MAX_RESPONSE, self.end(timeout), read_decision, key_of(check))
        except UnavailableError as err:
            d = yield from self._without(err, check, False)
            remote = err.sent
            if remote and not d.allowed:
                self._count("lost_leases")
        return d, Lease(check, remote or lease.remote) if d.allowed else None

    def release(self, lease: Optional[Lease], timeout: Optional[float]) -> Steps:
        def read(res: Any) -> bool:
            released = as_object(res).get("released")
            if not isinstance(released, bool):
                raise ValueError("a response without the release of the lease")
            return released

        if lease is None or not lease.remote:
            return False
        return (yield from self._call("/v1/release", write_check(lease.check, self.opt.domain), _MAX_RESPONSE, self.end(timeout), read))

    def _decide(self, checks: Sequence[Check], peek: bool, end: float) -> Generator[Any, Any, List[Decision]]:
        """Answers from memory what can be, and asks for the rest at once."""
        asked = self.now()
        written = [write_check(k, self.opt.domain) for k in checks]
        key = [key_of(k, len(checks)) for k in checks][0]
        # A repeat passes where others are refused.
        ids = [None if peek or key or self.opt.max_remember <= 0 else identity(w) for w in written]
        costs = [max(w.get("cost", 0), 1) for w in written]
        with self._lock:
            out = [None if key is None else self._refusals.find(key, cost, asked) for key, cost in zip(ids, costs)]
            at = [i for i, d in enumerate(out) if d is None]
            self._counts["deny_cache_hits"] += len(out) - len(at)
        if not at:
            return [d for d in out if d is not None]
        single = len(at) == 1
        body = written[at[0]] if single else {"checks": [written[i] for i in at]}

        def read(res: Any) -> List[Decision]:
            found = [res] if single else as_list(as_object(res).get("results"))
            if len(found) != len(at):
                raise ValueError(f"{len(found)} results for {len(at)} checks")
            return [read_decision(r) for r in found]

        try:
            most = _MAX_RESPONSE if single else _MAX_BATCH_RESPONSE
            results = yield from self._call("/v1/peek" if peek else "/v1/check", body, most, end, read, key)
            with self._lock:
                for i, d in zip(at, results):
                    if ids[i] is not None and d.is_steady():
                        self._refusals.remember(ids[i], costs[i], d, asked, self.opt.max_remember)
        except UnavailableError as err:
            results = []
            for i in at:
                results.append((yield from self._without(err, checks[i], peek)))
        found = dict(zip(at, results))
        return [found[i] if d is None else d for i, d in enumerate(out)]

    def _call(self, path: str, body: Any, most: int, end: float, read: Callable[[Any], Any], key: str = "") -> Steps:
        """Makes one call, guarded: it takes the budget at most, and is not made while the breaker is
        open, where the throttle refuses it, or above max_in_flight."""
        start = self.now()
        if start >= end:
            raise TimeoutError("weir: the timeout of this call is over")
        ticket, probe = self._admit(start)
        budget = min(self.opt.budget, (end - start) / 2)
        with self._ended(ticket, probe, budget):
            data = json.dumps(body).encode()
            headers = self.opt.headers
            if key:
                headers = {**headers, "Idempotency-Key": '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'}
            request = write_request(self._path + path, self._netloc, headers, data)
            res = yield Ask(request, most, budget)
            if res.status != 200:
                raise problem_of(res)
            return read(read_json(bytes(res.body)))

    def _admit(self, now: float) -> Tuple[int, bool]:
        with self._lock:
            if self._counts["in_flight"] >= self.opt.max_in_flight:
                self._counts["in_flight_rejected"] += 1
                raise UnavailableError("in_flight", "too many calls to the service are under way")
            ok, probe, left = self._breaker.admit(now)
            if not ok:
                self._counts["breaker_rejected"] += 1
                raise UnavailableError("open", "circuit breaker open: the service is unavailable", left)
            ticket, ok = self._throttle.begin(now - self._origin)
            # The breaker's probes are few: what they find is worth more than the call.
            if not ok and not probe:
                self._counts["throttled"] += 1
                raise UnavailableError("throttled", "the service fails often; this call was spared it")
            self._counts["calls"] += 1
            self._counts["in_flight"] += 1
            return ticket, probe

    @contextmanager
    def _ended(self, ticket: int, probe: bool, budget: float) -> Iterator[None]:
        """Tells the guards how the call within it went, and raises what its caller is to know."""
        try:
            try:
                yield
            finally:
                self._count("in_flight", -1)
        except RequestError:
            self._count("caller_errors")
            self._answered(ticket, probe)
            raise
        except (socket.timeout, TimeoutError, asyncio.TimeoutError) as err:
            late = UnavailableError("timeout", f"no response within {budget} s")
            self._failed(late, ticket, probe, budget)
            raise late from err
        except (OSError, ProtocolError, ValueError, UnavailableError) as err:
            cause = err if isinstance(err, UnavailableError) else UnavailableError("failure", _say(err))
            self._failed(cause, ticket, probe, budget)
            raise cause from err
        except BaseException:  # the caller has gone: that says nothing of the service
            self._neutral(ticket, probe)
            raise
        else:
            self._answered(ticket, probe)

    def _answered(self, ticket: int, probe: bool) -> None:
        with self._lock:
            self._throttle.accept(ticket)
            closed = self._breaker.succeeded(probe)
            answers_again = self._outages.end()
        if answers_again:
            _log.info("the rate limit service answers again")
        if closed and self.opt.on_breaker:
            self.opt.on_breaker(False, None)

    def _neutral(self, ticket: int, probe: bool) -> None:
        with self._lock:
            self._throttle.forget(ticket)
            if probe:
                self._breaker.canceled()

    def _failed(self, err: UnavailableError, ticket: int, probe: bool, budget: float) -> None:
        name = {"busy": "overloaded", "timeout": "timeouts"}.get(err.reason, "failures")
        self._count(name)
        if err.reason == "timeout" and budget < self.opt.budget / 4:
            self._neutral(ticket, probe)  # a caller in such a hurry shows nothing about the service
            return
        with self._lock:
            now = self.now()
            opened = self._breaker.busy(now, err.retry_after, probe) if err.reason == "busy" else self._breaker.failed(now, probe)
            err.left = self._breaker.state(now)[1]
            self._counts["breaker_opened"] += opened
        if opened and self.opt.on_breaker:
            self.opt.on_breaker(True, err)

    def _without(self, err: UnavailableError, check: Check, peek: bool) -> Generator[Any, Any, Decision]:
        """Decides what the service did not."""
        with self._lock:
            begins = self._outages.begin(self.now())
        if begins:
            by = "a function" if callable(self.opt.fallback) else self.opt.fallback
            _log.warning("the rate limit service does not answer; checks are decided by the fallback, %s: %s", by, err)
        if self.opt.fallback == "allow":
            self._count("allowed")
            return Decision(True, source="policy", degraded=True, cause=err)
        if self.opt.fallback == "deny":
            self._count("denied")
            return Decision(False, retry_after=max(err.left, self.opt.budget), source="policy", degraded=True, cause=err)
        d = local_decision((yield Local(check, peek)))
        self._count("local")
        return replace(d, source="local", degraded=True, cause=err)


def _say(err: Exception) -> str:
    if isinstance(err, ValueError) and not isinstance(err, OSError):  # as is a certificate that is not trusted
        return f"the response is not from Weir: {err}"
    return str(err)


def problem_of(res: Response) -> Exception:
    """Returns what a response that is no decision means."""
    detail = "the service answered"
    try:
        problem = read_json(bytes(res.body))
    except ValueError:
        problem = None  # the status alone says what it means
    if isinstance(problem, dict):
        detail = next((problem[k] for k in ("detail", "title") if isinstance(problem.get(k), str) and problem[k]), detail)
    if res.status in (429, 503):
        wait = wait_of(res.status, res.headers, time.time())
        if wait > 0:
            return UnavailableError("busy", f"{detail}; it asks to be left alone for {wait} s", retry_after=wait)
    elif res.status in _CALLERS_FAULTS and res.headers.get("content-type", "").startswith("application/problem+json"):
        if not isinstance(problem, dict):
            return RequestError(res.status, detail)
        code, reserved, actual = (problem.get(k) for k in ("code", "reserved", "actual"))
        settled = Settlement(reserved, actual) if type(reserved) is int and type(actual) is int else None
        return RequestError(res.status, detail, code if isinstance(code, str) else "", settled)
    return UnavailableError("failure", f"{detail} (status {res.status})")
