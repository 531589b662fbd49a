"""How a client is set up."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Union
from urllib.parse import urlsplit

from ._types import Check, Decision, UnavailableError


@dataclass(frozen=True)
class Throttle:
    """How a service is spared that answers some calls and fails others: ratio calls are sent for each
    that is answered, over window seconds that hold at least least calls, and one each probe seconds."""

    ratio: float = 2.0
    window: float = 120.0
    least: int = 10
    probe: float = 1.0


@dataclass(frozen=True)
class Options:
    """Configures a client. Times are seconds."""

    url: str = "http://localhost:8080"
    headers: Mapping[str, str] = field(default_factory=dict)  # sent with each call
    domain: str = ""  # asked by checks that name none
    # What is decided while the service does not answer: "allow", "deny", or a function of the
    # check and of whether it only looks, which may be a coroutine for an AsyncClient.
    fallback: Union[str, Callable[[Check, bool], Any]] = "allow"
    budget: float = 0.1  # the longest that one call takes, and never more than half of its timeout
    max_in_flight: int = 1024
    probe: float = 1.0  # how long the service is left alone; doubles to max_probe
    max_probe: float = 30.0
    max_remember: float = 60.0  # the longest that a refusal is answered without asking; negative for never
    max_wait: float = 10.0
    max_waiting: int = 1024
    throttle: Throttle = Throttle()
    on_breaker: Optional[Callable[[bool, Optional[UnavailableError]], None]] = None  # whether it opened, and why
    ssl_context: Any = None  # an ssl.SSLContext for https. None means the default one.
    clock: Any = None  # has now() and sleep(seconds). None means the process's.

    def __post_init__(self) -> None:
        for name in ("budget", "max_in_flight", "probe", "max_probe", "max_wait", "max_waiting"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: set it above zero")
        if self.fallback not in ("allow", "deny") and not callable(self.fallback):
            raise ValueError(f'no fallback {self.fallback!r}: set it to "allow", "deny" or a function')
        if self.probe > self.max_probe:
            raise ValueError(f"probe is {self.probe}, longer than max_probe, {self.max_probe}")
        t = self.throttle
        if not 1 <= t.ratio <= 1000:
            raise ValueError(f"throttle.ratio is {t.ratio}: set it from 1 to 1000")
        if not max(1.0, 2 * self.budget) <= t.window < float("inf"):
            raise ValueError(f"throttle.window is {t.window}: set it to a second, and twice the budget, or more")
        if not (t.least >= 0 and t.probe >= 0):
            raise ValueError("throttle.least and throttle.probe must be zero or more")
        try:
            u = urlsplit(self.url)
            bad = u.scheme not in ("http", "https") or not u.hostname or u.query or u.fragment or "@" in u.netloc or u.port == 0
        except ValueError:
            bad = True
        if bad or not re.fullmatch(r"[!-~]+", self.url):
            raise ValueError(f"url {self.url!r}: write it as http://HOST:PORT")
        for k, v in self.headers.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", k) or not re.fullmatch(r"[\t -~]*", v):
                raise ValueError(f"header {k!r}: names and values must be what HTTP takes")


def local_decision(local: Any) -> Decision:
    """Returns the decision of a fallback function, which returns a bool or a Decision."""
    return local if isinstance(local, Decision) else Decision(allowed=local is True)
