"""What spares a service. Not safe for concurrent use: the core holds its lock."""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import Deque, Dict, List, Optional, Tuple

from ._options import Throttle as ThrottleOptions
from ._types import Decision

_IN_ROW, _OF_LAST, _LAST = 5, 10, 20


class Breaker:
    """Open while the service is taken to be away. Once it has been open for a time one call
    probes; a failure opens it for longer, a success closes it."""

    def __init__(self, least: float, most: float) -> None:
        self._least, self._most = least, most
        self._open = self._probing = False
        self._until = self._wait = 0.0
        self._row = 0  # failures since the last success
        self._last: Deque[bool] = deque(maxlen=_LAST)  # the last calls, True for a failure

    def admit(self, now: float) -> Tuple[bool, bool, float]:
        """Returns whether a call may go, whether it is a probe, and else how long until one may."""
        if not self._open:
            return True, False, 0.0
        left = self._until - now
        if left > 0:
            return False, False, left
        if self._probing:
            return False, False, 0.001  # its outcome is about to be known
        self._probing = True
        return True, True, 0.0

    def succeeded(self, probe: bool) -> bool:
        """Reports whether the breaker closed for a call that went well."""
        if self._open and not probe:
            return False  # sent before it opened
        closed = self._open
        self._open = self._probing = False
        self._wait = 0.0
        if closed:
            self._last.clear()
        self._record(False)
        return closed

    def failed(self, now: float, probe: bool) -> bool:
        """Reports whether the breaker opened for a call that failed."""
        if self._open:
            return self._failed_open(now, probe, 0.0)
        self._record(True)
        if self._row < _IN_ROW and not (len(self._last) == _LAST and sum(self._last) >= _OF_LAST):
            return False
        self._open_for(now, 0.0)
        return True

    def busy(self, now: float, wait: float, probe: bool) -> bool:
        """Opens the breaker for at least wait, within the longest, if the service has asked for it
        twice without an answer between: once may be the trouble of one question."""
        wait = min(wait, self._most)
        if self._open:
            return self._failed_open(now, probe, wait)
        self._record(True)
        if self._row < 2:
            return False
        self._open_for(now, wait)
        return True

    def canceled(self) -> None:
        """Says that nothing can be said of a probe."""
        self._probing = False

    def state(self, now: float) -> Tuple[bool, float]:
        return self._open, max(self._until - now, 0.0)

    def _failed_open(self, now: float, probe: bool, wait: float) -> bool:
        if probe:
            self._probing = False
            self._open_for(now, wait)
        return False

    def _record(self, failed: bool) -> None:
        self._row = self._row + 1 if failed else 0
        self._last.append(failed)

    def _open_for(self, now: float, wait: float) -> None:
        # Longer by up to half at random, so that clients do not all return at one instant.
        self._open = True
        self._wait = max(min(max(2 * self._wait, self._least), self._most), wait)
        self._until = now + self._wait * (1 + random.random() / 2)


_SLOTS = 60  # into how many parts the window is cut


class OutageLog:
    """Says when to log that checks are decided without the service.

    A service that answers now and then must not fill the log: no warning follows another within
    a minute.
    """

    def __init__(self) -> None:
        self._open = False  # that it began was logged, and that it ended was not
        self._until = -math.inf

    def begin(self, now: float) -> bool:
        """Returns whether to log that a check is decided without the service."""
        if self._open or now < self._until:
            return False
        self._open, self._until = True, now + 60
        return True

    def end(self) -> bool:
        """Returns whether to log that the service answers again."""
        was_open, self._open = self._open, False
        return was_open


class Throttle:
    """Refuses calls before they are sent, each with the probability
    max(0, (requests - K * accepts) / (requests + 1)) over the window. A call counts from when
    it is begun: else a service that hangs would not be spared until the first timeouts.

    Source: Google, Site Reliability Engineering, chapter 21, Client-Side Throttling.
    """

    def __init__(self, opt: ThrottleOptions) -> None:
        self._ratio = round(opt.ratio * 65536)
        self._least, self._probe, self._width = opt.least, opt.probe, opt.window / _SLOTS
        self._now = self._sent = 0.0  # seconds since the throttle was made
        self._slots: List[List[int]] = [[-1, 0, 0] for _ in range(_SLOTS)]  # number, requests, accepts
        self._requests = self._accepts = 0

    def begin(self, now: float, drawn: Optional[int] = None) -> Tuple[int, bool]:
        """Counts a call, and returns its ticket and whether it may be sent. drawn is 32 bits."""
        drawn = random.getrandbits(32) if drawn is None else drawn
        self._now = max(self._now, now)
        ticket = int(self._now / self._width)
        self._expire(ticket)
        ok = self._requests < self._least or self._now - self._sent >= self._probe or not self._refuses(drawn)
        if ok:
            self._sent = self._now
        self._slots[ticket % _SLOTS][1] += 1
        self._requests += 1
        return ticket, ok

    def accept(self, ticket: int) -> None:
        """Says that the service has answered the call."""
        slot = self._slots[ticket % _SLOTS]
        if slot[0] == ticket:
            slot[2] += 1
            self._accepts += 1

    def forget(self, ticket: int) -> None:
        """Takes back that there was a call: nothing can be learnt from it."""
        slot = self._slots[ticket % _SLOTS]
        if slot[0] == ticket:
            slot[1] -= 1
            self._requests -= 1

    def _expire(self, ticket: int) -> None:
        if self._slots[ticket % _SLOTS][0] == ticket:
            return
        for slot in self._slots:
            if 0 <= slot[0] <= ticket - _SLOTS:
                self._requests -= slot[1]
                self._accepts -= slot[2]
                slot[:] = [-1, 0, 0]
        self._slots[ticket % _SLOTS][0] = ticket

    def _refuses(self, drawn: int) -> bool:
        # Exact: the same numbers give the same answer in every client.
        excess = (self._requests << 16) - self._accepts * self._ratio
        return excess > 0 and drawn * ((self._requests + 1) << 16) < excess << 32


MAX_REMEMBERED = 4096


@dataclass(frozen=True)
class _Refused:
    cost: int  # the least that was refused
    until: float
    asked: float
    decision: Decision


class Refusals:
    """Those that the service made and that still hold. What was refused stays refused until then
    plus retry_after, and so does all that costs as much or more: what others spend meanwhile can
    only make it longer."""

    def __init__(self) -> None:
        self._of: Dict[object, _Refused] = {}

    def __len__(self) -> int:
        return len(self._of)

    def find(self, key: object, cost: int, now: float) -> Optional[Decision]:
        r = self._of.get(key)
        if r is None:
            return None
        if now >= r.until:
            del self._of[key]
            return None
        if cost < r.cost:
            return None
        gone = now - r.asked
        return replace(
            r.decision, source="remembered", limits=(),
            retry_after=max(r.decision.retry_after - gone, 1e-6), reset_after=max(r.decision.reset_after - gone, 0.0),
        )

    def remember(self, key: object, cost: int, decision: Decision, asked: float, most: float) -> None:
        until = asked + min(most, decision.retry_after)
        old = self._of.get(key)
        if old is not None and old.cost < cost and old.until >= until:
            return  # a dearer refusal does not replace a cheaper one that says more
        if old is None and len(self._of) >= MAX_REMEMBERED:
            self._shrink(asked)
        self._of[key] = _Refused(cost, until, asked, decision)

    def forget(self) -> None:
        """Drops everything: units were given back, and refusals may not hold."""
        self._of.clear()

    def _shrink(self, now: float) -> None:
        few = list(islice(self._of.items(), 64))
        ended = [key for key, r in few if now >= r.until]
        for key in ended or [min(few, key=lambda item: item[1].until)[0]]:
            del self._of[key]
