"""Checks as the API reads them, and decisions as it writes them."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional, Union

from ._types import Check, Decision, Descriptor, Limit, Outcome, RequestError

_MAX_COST = 2**53


def as_check(check: Union[Check, Mapping[str, str]]) -> Check:
    """Returns the check that a mapping of entries is short for."""
    return check if isinstance(check, Check) else Check(entries=check)


def write_check(check: Check, domain: str) -> Dict[str, Any]:
    """Returns a check as the API reads it. Raises a RequestError where it cannot be asked."""
    out: Dict[str, Any] = {}
    if _text(check.domain or domain):
        out["domain"] = check.domain or domain
    out["descriptors"] = [_write_descriptor(d) for d in check.descriptors or (Descriptor(check.entries),)]
    if _cost(check.cost):
        out["cost"] = check.cost
    if type(check.priority) is not int or abs(check.priority) >= 2**31:
        raise RequestError(400, f"the priority {check.priority!r} must be an integer")
    if check.priority:
        out["priority"] = check.priority
    if _text(check.lease):
        out["lease"] = check.lease
    return out


def key_of(check: Check, of: int = 1) -> str:
    """Returns the idempotency key of a check. Raises a RequestError where there can be none."""
    key = check.idempotency_key
    if not isinstance(key, str) or len(key) > 256 or any(not " " <= c <= "~" for c in key):
        raise RequestError(400, "an idempotency key must be a string of at most 256 characters of printable ASCII")
    if key and (check.lease or of > 1):
        raise RequestError(400, "an idempotency key is for one check or reservation, without a lease: that names the call itself")
    return key


def _write_descriptor(d: Descriptor) -> Dict[str, Any]:
    pairs = d.entries.items() if isinstance(d.entries, Mapping) else d.entries
    out: Dict[str, Any] = {"entries": [{"key": _text(k), "value": _text(v)} for k, v in pairs]}
    if _cost(d.cost):
        out["cost"] = d.cost
    if d.peek:
        out["peek"] = True
    return out


def _cost(cost: int) -> int:
    if type(cost) is not int or not 0 <= cost <= _MAX_COST:
        raise RequestError(400, f"the cost {cost!r} must be an integer from 0 to 2^53")
    return cost


def _text(s: str) -> str:
    if not isinstance(s, str):
        raise RequestError(400, f"domains, leases, keys and values must be strings, not {type(s).__name__}")
    try:
        s.encode()
    except UnicodeEncodeError:
        raise RequestError(400, "domains, leases, keys and values must be UTF-8: two that are not would become one") from None
    return s


def identity(written: Mapping[str, Any]) -> str:
    """Returns a text that is equal for two written checks if and only if they differ in nothing but cost."""
    return json.dumps([written.get("domain"), written.get("priority"), written["descriptors"]])


def read_json(data: bytes) -> Any:
    """Raises a ValueError for what is no JSON."""

    def constant(name: str) -> None:
        raise ValueError(f"{name} is no number")

    try:
        return json.loads(data.decode("utf-8", "replace"), parse_constant=constant)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None


def read_decision(value: Any) -> Decision:
    """Returns the decision that a response holds. Raises a ValueError if it holds none."""
    d = as_object(value)
    if not isinstance(d.get("allowed"), bool):
        raise ValueError("a response without an outcome")
    guarantee = d.get("guarantee")
    return Decision(
        allowed=d["allowed"], delay=_seconds(d.get("delay"), 0.0), retry_after=_seconds(d.get("retry_after")), limit=_limit(d.get("limit")),
        remaining=None if d.get("remaining") is None else as_int(d["remaining"]), reset_after=_seconds(d.get("reset_after")),
        soft=_flag(d.get("soft")), borrowed=_flag(d.get("borrowed")), repeated=_flag(d.get("repeated")), limits=tuple(_outcome(o) for o in as_list(d.get("limits"))),
        degraded=guarantee is not None and _flag(as_object(guarantee).get("degraded")),
    )


def _outcome(value: Any) -> Outcome:
    o = as_object(value)
    return Outcome(
        limit=_limit(o.get("limit")), role=as_text(o.get("role")), cost=as_int(o.get("cost", 0)), allowed=_flag(o.get("allowed")),
        charged=_flag(o.get("charged")), remaining=as_int(o.get("remaining", 0)), retry_after=_seconds(o.get("retry_after")),
        reset_after=_seconds(o.get("reset_after")),
    )


def _limit(value: Any) -> Optional[Limit]:
    if value is None:
        return None
    o = as_object(value)
    return Limit(as_text(o.get("name")), as_int(o.get("count", 0)), as_int(o.get("burst", 0)), _seconds(o.get("period"), 0.0), as_text(o.get("algorithm")))


def as_object(v: Any) -> Dict[str, Any]:
    if not isinstance(v, dict):
        raise ValueError("a response that is no object")
    return v


def as_list(v: Any) -> List[Any]:
    if v is not None and not isinstance(v, list):
        raise ValueError("a list that is none")
    return v or []


def _seconds(v: Any, none: float = math.inf) -> float:
    if v is None:
        return none
    if type(v) not in (int, float) or not 0 <= v or v == math.inf:
        raise ValueError(f"{v!r} is no number of seconds")
    return float(v)


def as_int(v: Any) -> int:
    if type(v) is not int or abs(v) > 2**63:
        raise ValueError(f"{v!r} is no integer")
    return v


def _flag(v: Any) -> bool:
    if v is not None and not isinstance(v, bool):
        raise ValueError(f"{v!r} is neither true nor false")
    return bool(v)


def as_text(v: Any) -> str:
    if v is not None and not isinstance(v, str):
        raise ValueError(f"{v!r} is no text")
    return v or ""


def as_time(v: Any) -> datetime:
    """Reads an RFC 3339 time, to the second."""
    text = as_text(v)
    return datetime.fromisoformat(text[:19] + "+00:00")
