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


# The three forms of a date, RFC 9110 section 5.6.7: IMF-fixdate, RFC 850, asctime.
_MONTH, _TIME = f"(?P<month>{'|'.join(_MONTHS)})", "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = tuple(re.compile(form) for form in (
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
    rf"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
))


def _date(v: str) -> Optional[float]:
    m = next(filter(None, (form.fullmatch(v) for form in _DATES)), None)
    if m is None:
        return None
    year = int(m["year"])
    if len(m["year"]) == 2:
        year += 2000 if year < 69 else 1900  # as Go and POSIX read it
    try:
        at = datetime(year, _MONTHS.index(m["month"]) + 1, int(m["day"]), int(m["hour"]), int(m["minute"]), int(m["second"]))
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
