"""What clients are asked, and what they answer. Times are seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Mapping, Optional, Sequence, Tuple, Union
from urllib.error import URLError

Entries = Union[Mapping[str, str], Sequence[Tuple[str, str]]]


@dataclass(frozen=True)
class Descriptor:
    """What limits are matched against: entries in their order, and its own cost if not 0."""

    entries: Entries
    cost: int = 0
    peek: bool = False


@dataclass(frozen=True)
class Check:
    """A question: may this pass? Of one descriptor by entries, or of several by descriptors."""

    entries: Entries = ()
    domain: str = ""
    descriptors: Sequence[Descriptor] = ()
    cost: int = 0
    priority: int = 0
    lease: str = ""
    # Names the call: check and reserve charge it once within an hour, however often they are called.
    idempotency_key: str = ""


@dataclass(frozen=True)
class Limit:
    name: str
    count: int
    burst: int
    period: float
    algorithm: str


@dataclass(frozen=True)
class Outcome:
    """What one limit said of a request."""

    limit: Optional[Limit]
    role: str
    cost: int
    allowed: bool
    charged: bool
    remaining: int
    retry_after: float
    reset_after: float


class RequestError(Exception):
    """A question that the service will not answer, now or later. Nothing was counted.

    code says it for programs (SETTLED, EXPIRED, ...) and is empty where the client found it;
    settled is what a reservation came to that was settled before.
    """

    def __init__(self, status: int, detail: str, code: str = "", settled: "Optional[Settlement]" = None) -> None:
        super().__init__(f"weir: {detail} (status {status})")
        self.status = status
        self.detail = detail
        self.code = code
        self.settled = settled


class UnavailableError(Exception):
    """A call that the service did not answer.

    reason is open, throttled or in_flight where the call was not made, and timeout, busy or
    failure where it was. left is how long the service is left alone.
    """

    def __init__(self, reason: str, detail: str, left: float = 0.0, retry_after: float = 0.0) -> None:
        super().__init__(f"weir: {detail}")
        self.reason = reason
        self.left = left
        self.retry_after = retry_after

    @property
    def sent(self) -> bool:
        """The service was asked, and what it was asked may have been done."""
        return self.reason in ("timeout", "failure")


@dataclass(frozen=True)
class Decision:
    """An answer.

    retry_after is math.inf if waiting does not help; remaining is None if it is not known.
    repeated: it was charged before, under its idempotency_key, and now nothing.
    source is service, remembered, local or policy. degraded: this may not be what the limits
    say, for the service or its store did not answer; cause is why.
    """

    allowed: bool
    delay: float = 0.0
    retry_after: float = 0.0
    limit: Optional[Limit] = None
    remaining: Optional[int] = None
    reset_after: float = 0.0
    soft: bool = False
    borrowed: bool = False
    limits: Tuple[Outcome, ...] = field(default=())
    source: str = "service"
    degraded: bool = False
    cause: Optional[UnavailableError] = None
    repeated: bool = False

    def is_steady(self) -> bool:
        """Reports whether a refusal stands until retry_after, whatever others do.

        That a permit becomes free cannot be foreseen, nor that a pool fills.
        """
        if self.allowed or self.degraded or self.retry_after == 0 or not self.limits:
            return False
        return all(
            o.allowed or (o.role not in ("own", "pool") and not (o.limit and o.limit.algorithm == "concurrency")) for o in self.limits
        )


class RefusedError(Exception):
    """A wait that would be too long."""

    def __init__(self, decision: Decision) -> None:
        by = f'limit "{decision.limit.name}"' if decision.limit else "the service"
        wait = max(decision.retry_after, decision.delay)
        super().__init__(f"weir: refused by {by}" + (", whatever the wait" if wait == math.inf else f": retry after {wait} s"))
        self.decision = decision


class LimitedError(URLError):
    """A request that a LimitHandler, adapter or transport did not send. retry_after is 0 if it is not known.

    throttled: the key refuses or fails many requests. Else it asked to be left alone.
    """

    def __init__(self, key: str, retry_after: float, throttled: bool) -> None:
        why = "refuses or fails many requests: this one was not sent" if throttled else f"asked to be left alone: retry after {retry_after} s"
        super().__init__(f"weir: {key} {why}")
        self.key, self.retry_after, self.throttled = key, retry_after, throttled

    def __str__(self) -> str:
        return str(self.reason)


@dataclass(frozen=True)
class Reservation:
    """An estimate that was spent. Without a handle there is nothing to settle."""

    decision: Decision
    handle: str = ""
    expires: Optional[datetime] = None


@dataclass(frozen=True)
class Settlement:
    reserved: int
    actual: int


@dataclass(frozen=True)
class Lease:
    """A permit of a concurrency limit. remote: the service may hold it."""

    check: Check
    remote: bool = True
