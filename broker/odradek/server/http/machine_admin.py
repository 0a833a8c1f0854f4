"""The HTTP server of a machine of several brokers: one address, at which each process answers for all of them.

The kernel gives a connection to one of the processes. That one answers with its own part and those of the others. It
asks each at a socket in a folder that only the machine's user can enter. It names the caller there. Each process
decides what the caller may see, as for its own callers.

    /metrics       all samples, with the label `process`; a metric stands once, as both formats of Prometheus demand
    /readyz        ready when every process is; else why each is not
    /healthz       well unless a process runs and does not answer
    /can-restart   whether the machine may be stopped
    /record-times  and /queue-locks: what each process knows, together
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout, UnixConnector, web

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.cluster_control import ClusterControl
from odradek.foundation import machine_metrics
from odradek.foundation.exposition import Exposition
from odradek.foundation.machine_limits import SIBLING_ANSWER_SECONDS_MAX, SIBLING_METRICS_SECONDS_MAX
from odradek.foundation.metrics import Sample
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import QUEUE_LOCKS_PER_ANSWER_MAX, QUEUE_PARTITIONS_PER_ANSWER_MAX
from odradek.server.http.admin import NO_HOST
from odradek.server.http.cluster_admin import ClusterAdminServer
from odradek.server.http.strangers import PlainSite
from odradek.server.http.visible_names import Names, names_for
from odradek.server.member import MachineMember

_HOST: Final = "X-Odradek-Host"
_CALLER: Final = "X-Odradek-Caller"
_OK: Final = 200
_UNAVAILABLE: Final = 503
_NOT_RUNNING: Final = 0
_SILENT: Final = 504
_METRICS_END: Final = b"# EOF"
# The name of a sample, and the brace of its labels if it has some.
_SAMPLE: Final = re.compile(rb"([A-Za-z_:][\w:]*)(\{?)")


class _Answer(NamedTuple):
    """What a process has answered: its HTTP status, or one of the two above."""

    status: int
    body: bytes = b""

    @property
    def text(self) -> str:
        if self.status == _NOT_RUNNING:
            return "it does not run"
        if self.status == _SILENT:
            return f"it has not answered within {SIBLING_ANSWER_SECONDS_MAX:g} s"
        return self.body.decode(errors="replace").strip()


class MachineAdminServer(ClusterAdminServer):
    """The HTTP server of one process of a machine."""

    def __init__(self, broker: BrokerProcess[ClusterControl], machine: MachineMember) -> None:
        host, port = machine.admin or ("", 0)
        super().__init__(broker, host=host, port=port, listening=machine.admin_listening)
        self._machine = machine
        self._private = web.Application()
        self._private_runner: web.AppRunner | None = None
        self._sessions: dict[int, ClientSession] = {}
        self.registry.register(self._own_samples)

    def _own_samples(self) -> Iterator[Sample]:
        yield machine_metrics.MACHINE_PROCESS_UP.sample(1)
        yield machine_metrics.MACHINE_PROCESS_RESTARTS.sample(self._machine.restarts)

    async def start(self) -> None:
        """Answer other processes, and callers. Raises OSError."""
        listening = _listen_at(self._machine.socket_path(self._machine.number))
        self._private_runner = self._new_runner(self._private)
        await self._private_runner.setup()
        await PlainSite(self._private_runner, None, 0, listening=listening).start()
        for number in self._machine.siblings:
            connector = UnixConnector(self._machine.socket_path(number))
            self._sessions[number] = ClientSession("http://machine", connector=connector)
        await super().start()

    async def stop(self) -> None:
        """Stop listening, as every server does."""
        await super().stop()
        for session in self._sessions.values():
            await session.close()
        if self._private_runner is not None:
            await self._private_runner.cleanup()

    # --- the caller ------------------------------------------------------------------------------------------------

    def _is_private(self, request: web.Request) -> bool:
        return request.app is self._private

    def names(self, request: web.Request) -> Names:
        if not self._is_private(request):
            return super().names(request)
        return names_for(self._member, request.headers.get(_HOST, NO_HOST), request.headers.get(_CALLER))

    async def _ask(
        self, request: web.Request, *, seconds_max: float = SIBLING_ANSWER_SECONDS_MAX
    ) -> dict[int, _Answer]:
        """The answers of the other processes to the same request, of the same caller."""
        caller = self._caller()
        headers = {_HOST: request.remote or NO_HOST, "Accept": request.headers.get("Accept", "")}
        if caller is not None:
            headers[_CALLER] = caller
        body = await request.read()
        answers = await asyncio.gather(
            *(
                self._ask_one(session, request, headers, body, seconds_max)
                for session in self._sessions.values()
            )
        )
        return dict(zip(self._sessions, answers, strict=True))

    async def _ask_one(
        self,
        session: ClientSession,
        request: web.Request,
        headers: Mapping[str, str],
        body: bytes,
        seconds_max: float,
    ) -> _Answer:
        try:
            async with session.request(
                request.method,
                request.path_qs,
                headers=headers,
                data=body or None,
                timeout=ClientTimeout(total=seconds_max),
            ) as response:
                return _Answer(response.status, await response.read())
        except TimeoutError:
            return _Answer(_SILENT)
        except (ClientError, OSError):
            return _Answer(_NOT_RUNNING)

    # --- answers -------------------------------------------------------------------------------------------------

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._is_private(request):
            return await super()._metrics(request)
        own, answers = await asyncio.gather(
            super()._metrics(request), self._ask(request, seconds_max=SIBLING_METRICS_SECONDS_MAX)
        )
        assert isinstance(own.body, bytes)
        texts = {self._machine.number: own.body}
        nothing = Exposition(request.headers.get("Accept", ""))
        missing = {machine_metrics.MACHINE_PROCESS_UP: [machine_metrics.MACHINE_PROCESS_UP.sample(0)]}
        for number, answer in answers.items():
            texts[number] = answer.body if answer.status == _OK else b"".join(nothing.parts(missing))
        # Of tens of thousands of partitions this takes more than a turn of the loop.
        body = await asyncio.to_thread(join_metrics, sorted(texts.items()))
        return web.Response(body=body, headers={"Content-Type": own.headers["Content-Type"]})

    async def _health(self, request: web.Request) -> web.Response:
        if self._is_private(request):
            return await super()._health(request)
        answers = await self._ask(request)
        silent = [number for number, answer in answers.items() if answer.status == _SILENT]
        if silent:
            return _refuse({number: answers[number].text for number in silent})
        return await super()._health(request)

    async def _readiness(self, request: web.Request) -> web.Response:
        own = await super()._readiness(request)
        if self._is_private(request) or own.status not in (_OK, _UNAVAILABLE):
            return own
        answers = await self._ask(request)
        reasons = {number: answer.text for number, answer in answers.items() if answer.status != _OK}
        if own.status != _OK:
            reasons[self._machine.number] = (own.text or "").strip()
        return _refuse(reasons) if reasons else own

    async def _can_restart(self, request: web.Request) -> web.Response:
        own = await super()._can_restart(request)
        if self._is_private(request) or own.status != _OK:
            return own
        for number, answer in (await self._ask(request)).items():
            if answer.status == _UNAVAILABLE:
                return web.json_response(json.loads(answer.body), status=_UNAVAILABLE)
            if answer.status != _OK:
                reason = f"process {number}: {answer.text}"
                return web.json_response({"can_restart": False, "reason": reason}, status=_UNAVAILABLE)
        return own

    async def _record_times(self, request: web.Request) -> web.Response:
        own = await super()._record_times(request)
        if self._is_private(request) or own.status != _OK:
            return own
        joined: dict[str, dict[str, int]] = json.loads(own.text or "{}")
        for text in await self._ask_others(request):
            for topic, times in json.loads(text).items():
                joined.setdefault(topic, {}).update(times)
        return web.json_response(joined)

    async def _queue_locks(self, request: web.Request) -> web.Response:
        own = await super()._queue_locks(request)
        if self._is_private(request) or own.status != _OK:
            return own
        joined = json.loads(own.text or "{}")
        for text in await self._ask_others(request):
            found = json.loads(text)
            joined["truncated"] |= found["truncated"]
            for key, bound in (
                ("partitions", QUEUE_PARTITIONS_PER_ANSWER_MAX),
                ("locks", QUEUE_LOCKS_PER_ANSWER_MAX),
            ):
                joined[key] += found[key]
                joined["truncated"] |= len(joined[key]) > bound
                del joined[key][bound:]
        return web.json_response(joined)

    async def _ask_others(self, request: web.Request) -> list[bytes]:
        """What the others know, as JSON. One that does not answer knows nothing, as a broker that is down."""
        return [answer.body for answer in (await self._ask(request)).values() if answer.status == _OK]


def _listen_at(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()  # of the process before this one
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    listening.listen()
    listening.setblocking(False)
    return listening


def _refuse(reasons: Mapping[int, str]) -> web.Response:
    lines = (f"process {number}: {reason}\n" for number, reason in sorted(reasons.items()))
    return web.Response(status=_UNAVAILABLE, text="".join(lines))


def join_metrics(texts: Iterable[tuple[int, bytes]]) -> bytes:
    """The texts of several processes as one, from (process, text) each. All are of one format."""
    heads: dict[bytes, list[bytes]] = {}
    samples: dict[bytes, list[bytes]] = {}
    has_end = False
    for number, text in texts:
        name = b""
        for line in text.splitlines():
            if line == _METRICS_END:
                has_end = True
            elif line.startswith(b"# "):
                name = line.split(b" ", 3)[2]
                head = heads.setdefault(name, [])
                if line not in head:
                    head.append(line)
            elif line:
                samples.setdefault(name, []).append(_label(line, number))
    lines = [line for name, head in heads.items() for line in (*head, *samples.get(name, ()))]
    if has_end:
        lines.append(_METRICS_END)
    return b"\n".join(lines) + b"\n"


def _label(line: bytes, number: int) -> bytes:
    found = _SAMPLE.match(line)
    assert found is not None, "prometheus_client writes nothing else"
    name, brace = found.groups()
    label = b'%b{process="%d"' % (name, number)
    return label + (b"," if brace else b"}") + line[found.end() :]
