"""For how long a response asks to be left alone.

Source: RFC 9110 section 10.2.3 (Retry-After), RFC 9651 (structured fields),
draft-ietf-httpapi-ratelimit-headers-11 (RateLimit) and -06 (RateLimit-Remaining, -Reset).
"""

from __future__ import annotations

import calendar
import re
from datetime import datetime
from typing import Dict, Mapping, Optional
from urllib.parse import unquote_to_bytes

_MAX_FIELD = 8192  # characters of one field
_MAX_MEMBERS = 64
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def wait_of(status: int, headers: Mapping[str, str], now: float) -> float:
    """Returns for how many seconds a response asks to be left alone, and 0 if it does not.

    That is Retry-After on a 429 or 503, and else the longest time of a limit that has nothing
    left. Names of headers are in lower case.
    """
    if status in (429, 503):
        wait = _retry_after(headers, now)
        if wait is not None:
            return wait
    if headers.get("age", "").strip("0"):
        return 0.0  # from a cache
    left, reset = _seconds(headers.get("ratelimit-remaining", "")), _seconds(headers.get("ratelimit-reset", ""))
    return _exhausted(headers.get("ratelimit", "")) or (reset if left == 0 and reset is not None else 0.0)


def _retry_after(headers: Mapping[str, str], now: float) -> Optional[float]:
    """A date counts from the response's own."""
    v = headers.get("retry-after", "")
    at = _date(v)
    if at is None:
        return _seconds(v)
    sent = _date(headers.get("date", ""))
    return max(at - (now if sent is None else sent), 0.0)


def _seconds(v: str) -> Optional[float]:
    if not re.fullmatch(r"[0-9]+", v):
        return None
    return float(v) if len(v) < 300 else 1e300


def _date(v: str) -> Optional[float]:
    m = re.fullmatch(r"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT", v)
    if m is None or m[2] not in _MONTHS:
        return None
    try:
        at = datetime(int(m[3]), _MONTHS.index(m[2]) + 1, int(m[1]), int(m[4]), int(m[5]), int(m[6]))
    except ValueError:
        return None
    return float(calendar.timegm(at.timetuple()))


_STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*"'
_BARE = "|".join((
    r"-?[0-9]{1,12}\.[0-9]{1,3}", r"-?[0-9]{1,15}", _STRING, r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*",
    r":[A-Za-z0-9+/]*={0,2}:", r"\?[01]", r"@-?[0-9]{1,15}", r'%"(?:[ !#$&-~]|%[0-9a-f]{2})*"',
))
_PARAMETER = re.compile(rf"; *([a-z*][a-z0-9_.*-]*)(?:=({_BARE}))?")
_MEMBER = re.compile(rf"{_STRING}((?:{_PARAMETER.pattern})*)[ \t]*(?:,[ \t]*(?!\Z)|\Z)")


def _exhausted(field: str) -> float:
    """Returns the longest t of the limits of a RateLimit field whose r is 0, in seconds.

    A field that is no list of Strings, each with an r, states nothing.
    """
    text, at, longest = field.lstrip(" "), 0, 0
    if len(field) > _MAX_FIELD:
        return 0.0
    for _ in range(_MAX_MEMBERS):
        member = _MEMBER.match(text, at)
        if member is None:
            return 0.0
        params: Dict[str, int] = {}
        for key, value in _PARAMETER.findall(member[1]):
            if not _is_bytes_or_text(value):
                return 0.0
            params[key] = int(value) if re.fullmatch(r"-?[0-9]+", value) else -1
        left, wait = params.get("r", -1), params.get("t", 0)
        if left < 0 or wait < 0:
            return 0.0
        if left == 0:
            longest = max(longest, wait)
        at = member.end()
        if at == len(text):
            return float(longest)
    return 0.0


def _is_bytes_or_text(value: str) -> bool:
    """False of a byte sequence that is no base64, and of a display string that is not UTF-8."""
    if value.startswith(":"):
        return len(value[1:-1].rstrip("=")) % 4 != 1
    if value.startswith("%"):
        try:
            unquote_to_bytes(value[2:-1]).decode()
        except UnicodeDecodeError:
            return False
    return True
