"""Asks a Weir rate limit service whether requests may pass, over HTTP."""

from ._aio import AsyncClient
from ._client import Client
from ._handler import LimitHandler
from ._options import Options, Throttle
from ._types import (
    Check, Decision, Descriptor, Lease, Limit, LimitedError, Outcome, RefusedError, RequestError, Reservation, Settlement, UnavailableError,
)

__all__ = [
    "AsyncClient", "Check", "Client", "Decision", "Descriptor", "Lease", "Limit", "LimitHandler", "LimitedError", "Options", "Outcome", "RefusedError", "RequestError",
    "Reservation", "Settlement", "Throttle", "UnavailableError",
]
