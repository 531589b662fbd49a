"""HTTP/1.1, apart from the connections it goes over."""

from __future__ import annotations

import re
from typing import Callable, Dict, Mapping, Optional

_MAX_HEAD = 64 << 10
_MAX_LINE = 1 << 10  # of a chunk's size
_MAX_TRAILERS = 8 << 10
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class ProtocolError(Exception):
    """A response that is none, or too long."""


def write_request(path: str, host: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", *(f"{k}: {v}" for k, v in headers.items())]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


class Response:
    """Reads a response from the bytes that it is fed. most is the longest body of status 200; a
    longer one of another status reads as none."""

    def __init__(self, most: int) -> None:
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.body = bytearray()
        self.done = False
        self.keep = True  # the connection can be used again
        self._most = most
        self._buf = bytearray()
        self._left = 0
        self._trailers = 0
        self._read: Callable[[], bool] = self._head

    def feed(self, data: bytes) -> None:
        """Takes what has arrived, nothing at the end of the connection. Raises a ProtocolError."""
        if not data:
            self.keep = False
            if self._read != self._until_end:
                raise ProtocolError("the connection was closed before the response was whole")
            self.done = True
        self._buf += data
        while not self.done and self._read():
            pass
        if self.done and self._buf:
            self.keep = False

    def _line(self, most: int, what: str, end: bytes = b"\r\n") -> Optional[bytes]:
        i = self._buf.find(end, 0, most + len(end))
        if i < 0:
            if len(self._buf) > most:
                raise ProtocolError(f"{what} has more than {most} bytes")
            return None
        line = bytes(self._buf[:i])
        del self._buf[: i + len(end)]
        return line

    def _head(self) -> bool:
        if not b"HTTP/1.".startswith(self._buf[:7]):
            raise ProtocolError("malformed HTTP response")
        head = self._line(_MAX_HEAD, "the head of the response", b"\r\n\r\n")
        if head is None:
            return False
        first, *lines = head.split(b"\r\n")
        status = re.fullmatch(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: [^\r\n]*)?", first)
        if status is None:
            raise ProtocolError("malformed HTTP status line")
        self.status = int(status[2])
        self.headers = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not _TOKEN.fullmatch(name) or b"\n" in line or b"\r" in line or b"\0" in line:
                raise ProtocolError("malformed HTTP header")
            key, text = name.decode().lower(), value.strip(b" \t").decode("latin-1")
            if key in ("content-length", "transfer-encoding") and self.headers.get(key, text) != text:
                raise ProtocolError(f"two different {key}")
            if key == "ratelimit" and key in self.headers:
                text = f"{self.headers.pop(key)}, {text}"  # one list over several lines
            self.headers.setdefault(key, text)
        if 100 <= self.status < 200:
            if self.status == 101:
                raise ProtocolError("another protocol")
            return True  # the head of the response itself is to come
        if status[1] == b"0" or "close" in self.headers.get("connection", "").lower():
            self.keep = False
        return self._begin_body()

    def _begin_body(self) -> bool:
        length, encoding = self.headers.get("content-length"), self.headers.get("transfer-encoding")
        if encoding is not None:
            if encoding.lower() != "chunked" or length is not None:
                raise ProtocolError("a transfer encoding that is not read")
            self._read = self._chunk_size
        elif length is not None:
            if not re.fullmatch(r"[0-9]{1,18}", length):
                raise ProtocolError("malformed Content-Length")
            self._left, self._read = int(length), self._length
        elif self.status in (204, 304):
            self.done = True
        else:
            self._read = self._until_end
        return True

    def _take(self, n: int) -> None:
        part = self._buf[:n]
        if len(self.body) + len(part) > self._most:
            if self.status == 200:
                raise ProtocolError(f"the response has more than {self._most} bytes")
            self.body.clear()
            self.done, self.keep = True, False
            return
        self.body += part
        del self._buf[:n]

    def _length(self) -> bool:
        n = min(self._left, len(self._buf))
        self._left -= n
        self._take(n)
        self.done = self.done or self._left == 0
        return False

    def _until_end(self) -> bool:
        self._take(len(self._buf))
        return False

    def _chunk_size(self) -> bool:
        line = self._line(_MAX_LINE, "the size of a chunk")
        if line is None:
            return False
        size = re.fullmatch(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;.*)?", line)
        if size is None:
            raise ProtocolError("malformed size of a chunk")
        self._left = int(size[1], 16)
        self._read = self._chunk if self._left else self._trailer
        return True

    def _chunk(self) -> bool:
        n = min(self._left, len(self._buf))
        self._left -= n
        self._take(n)
        if self._left:
            return False
        self._read = self._chunk_end
        return True

    def _chunk_end(self) -> bool:
        if len(self._buf) < 2:
            return False
        if self._buf[:2] != b"\r\n":
            raise ProtocolError("malformed end of a chunk")
        del self._buf[:2]
        self._read = self._chunk_size
        return True

    def _trailer(self) -> bool:
        line = self._line(_MAX_TRAILERS, "a trailer")
        if line is None:
            return False
        self._trailers += len(line) + 2
        if self._trailers > _MAX_TRAILERS:
            raise ProtocolError(f"the trailers have more than {_MAX_TRAILERS} bytes")
        self.done = not line
        return True
