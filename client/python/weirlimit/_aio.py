"""The client for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._checks import as_check
from ._client import _context
from ._core import Ask, Core, Sleep, Steps
from ._http import Response
from ._options import Options
from ._types import Check, Decision, Lease, Reservation, Settlement

_MAX_IDLE = 64


class _Clock:
    now = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


class AsyncClient:
    """Client for one event loop, whose methods are coroutines. See there."""

    def __init__(self, options: Options = Options()) -> None:
        self._clock = options.clock or _Clock
        self._core = Core(options, self._clock.now)
        self._context = _context(options, self._core.tls)
        self._idle: List[Tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes idle connections."""
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.close()
        for _, writer in idle:
            try:
                await writer.wait_closed()
            except OSError:
                pass  # it was closed from the other end

    def counters(self) -> Dict[str, Any]:
        return self._core.counters()

    async def should_allow(self, client_id: str, timeout: Optional[float] = None) -> Decision:
        return await self.check({"client_id": client_id}, timeout)

    async def check(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Decision:
        return await self._run(self._core.check(as_check(check), False, timeout))

    async def peek(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Decision:
        return await self._run(self._core.check(as_check(check), True, timeout))

    async def check_all(self, checks: Sequence[Union[Check, Mapping[str, str]]], timeout: Optional[float] = None) -> List[Decision]:
        return await self._run(self._core.check_all([as_check(k) for k in checks], timeout))

    async def wait(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Decision:
        return await self._run(self._core.wait(as_check(check), timeout))

    async def reserve(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Reservation:
        return await self._run(self._core.reserve(as_check(check), timeout))

    async def commit(self, reservation: Reservation, actual: int, timeout: Optional[float] = None) -> Settlement:
        return await self._run(self._core.settle(reservation.handle, actual, timeout))

    async def cancel(self, reservation: Reservation, timeout: Optional[float] = None) -> Settlement:
        return await self._run(self._core.settle(reservation.handle, None, timeout))

    async def acquire(self, check: Union[Check, Mapping[str, str]], timeout: Optional[float] = None) -> Tuple[Decision, Optional[Lease]]:
        return await self._run(self._core.acquire(as_check(check), timeout))

    async def renew(self, lease: Lease, timeout: Optional[float] = None) -> Tuple[Decision, Optional[Lease]]:
        return await self._run(self._core.renew(lease, timeout))

    async def release(self, lease: Optional[Lease], timeout: Optional[float] = None) -> bool:
        return await self._run(self._core.release(lease, timeout))

    async def _run(self, steps: Steps) -> Any:
        try:
            step = next(steps)
            while True:
                try:
                    result = await self._do(step)
                except BaseException as err:  # the core tells what it says of the service
                    step = steps.throw(err)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value

    async def _do(self, step: Any) -> Any:
        if isinstance(step, Ask):
            return await asyncio.wait_for(self._exchange(step), step.budget)
        if isinstance(step, Sleep):
            result = self._clock.sleep(step.seconds)
        else:
            result = self._core.opt.fallback(step.check, step.peek)  # type: ignore[operator]
        return (await result) if inspect.isawaitable(result) else result

    async def _exchange(self, ask: Ask) -> Response:
        reader, writer = self._take() or await asyncio.open_connection(self._core.host, self._core.port, ssl=self._context)
        res = Response(ask.most)
        try:
            writer.write(ask.request)
            await writer.drain()
            while not res.done:
                res.feed(await reader.read(64 << 10))
        except BaseException:
            writer.close()
            raise
        if res.keep and len(self._idle) < _MAX_IDLE:
            self._idle.append((reader, writer))
        else:
            writer.close()
        return res

    def _take(self) -> Optional[Tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None
