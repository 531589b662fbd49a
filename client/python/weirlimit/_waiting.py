"""Waiting until a request may pass."""

from __future__ import annotations

import math
import random
from typing import Any

from ._types import Decision, RefusedError

_MAX_JITTER = 5.0


def later(wait: float, left: float) -> float:
    """Returns a wait, longer at random by up to a quarter, five seconds, and what is left of the time to wait."""
    return wait + random.random() * max(min(max(wait / 4, 0.001), _MAX_JITTER, left - wait), 0.0)


class Waiter:
    """A request that waits, several times perhaps, and not beyond end."""

    def __init__(self, core: Any, end: float) -> None:
        self._core, self._end = core, end
        self._inside = False
        self._poll = 0.01

    def done(self) -> None:
        if self._inside:
            self._core.leave()

    def delay(self, seconds: float, refused: Decision) -> float:
        """Returns seconds. Raises refused where that is too long, or too many wait."""
        if seconds > self._end - self._core.now():
            raise RefusedError(refused)
        self._inside = self._inside or self._core.enter()
        if not self._inside:
            raise RefusedError(refused)
        return seconds

    def retry(self, d: Decision) -> float:
        """Returns how long to wait after a refusal: a little longer than it says, so that not all
        return at the instant at which a window ends."""
        if d.retry_after == math.inf:
            raise RefusedError(d)
        wait = d.retry_after
        if d.limit is not None and d.limit.algorithm == "concurrency":
            # How long others hold their permits is not known.
            wait = min(wait, max(self._poll * (1 - random.random() / 4), 0.01))
            self._poll = min(2 * self._poll, 1.0)
        wait = self.delay(max(wait, 0.001), d)
        return later(wait, self._end - self._core.now())
