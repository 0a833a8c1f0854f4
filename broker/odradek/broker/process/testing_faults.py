"""Faults on demand, for tests of applications: an API answers with an error, late, or by closing the connection.

Only a broker started with `--testing-faults` has them: they are a step of its dispatcher, and other brokers pay nothing
for them. They are set in the process (`Broker.faults`) or over the admin port:

    POST   /testing/faults   {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 3}
                             {"api": "fetch", "delay_ms": 500}
                             {"api": "OffsetCommit", "close": true, "after": 2}
    DELETE /testing/faults   end all faults

`error` answers without carrying the request out. `delay_ms` delays the answer of a request that was carried out.
`close` (in the process: `disconnect`) closes the connection without carrying the request out. The fault hits `times`
requests, or all without it, after `after` good ones. `Faults.spare` excludes one client, such as the test's own
fixture.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from odradek.broker.requests import failures
from odradek.broker.requests.context import AnyContext, RequestContext
from odradek.broker.requests.dispatch import CloseConnection
from odradek.broker.requests.fetch import handler as fetch
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.parts import FetchParts, ProduceParts
from odradek.broker.requests.produce import handler as produce
from odradek.foundation.limits import TESTING_FAULTS_MAX
from odradek.foundation.words import nearest_name
from odradek.network.pending import Pending
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_typed_request
from odradek.wire.protocol.errors import error_number
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.messages import Message

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault of one API. With `times` None it lasts until cleared."""

    error_code: int | None
    delay_ms: float
    disconnect: bool
    times: int | None
    after: int


class Faults:
    """The faults in force, by API; of one API they take effect in the order in which they were added."""

    def __init__(self) -> None:
        self._by_api: dict[int, list[Fault]] = {}
        self._spared_client_id: str | None = None

    def spare(self, client_id: str) -> None:
        """No fault hits requests of this client, and they count for none."""
        self._spared_client_id = client_id

    def add(
        self,
        *,
        api: str,
        error: str | int | None = None,
        delay_ms: float | None = None,
        disconnect: bool = False,
        times: int | None = None,
        after: int = 0,
    ) -> None:
        """Add a fault. Raises ValueError for an unknown API or error, or a fault without an effect."""
        if error is None and not delay_ms and not disconnect:
            raise ValueError("a fault needs an error, a delay_ms above 0 or close")
        if delay_ms is not None and delay_ms < 0:
            raise ValueError(f"delay_ms is {delay_ms}; it has to be above 0")
        if times is not None and times < 1:
            raise ValueError(
                f"times is {times}; it has to be 1 or more, or left out for a fault without an end"
            )
        if after < 0:
            raise ValueError(f"after is {after}; it has to be 0 or more")
        if sum(len(faults) for faults in self._by_api.values()) >= TESTING_FAULTS_MAX:
            raise ValueError(f"there are {TESTING_FAULTS_MAX} faults already; clear them first")
        fault = Fault(
            error_code=None if error is None else error_number(error),
            delay_ms=delay_ms or 0,
            disconnect=disconnect,
            times=times,
            after=after,
        )
        self._by_api.setdefault(_api_key(api), []).append(fault)

    def clear(self) -> None:
        self._by_api.clear()

    def take(self, api_key: int, client_id: str = "") -> Fault | None:
        """The fault that hits this request, if any; it counts as one of its times."""
        if client_id == self._spared_client_id:
            return None
        for fault in self._by_api.get(api_key, ()):
            if fault.times == 0:
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
            return fault
        return None


def _api_key(name: str) -> int:
    wanted = name.replace("_", "").lower() if isinstance(name, str) else repr(name)
    names = {api_key.kafka_name.lower(): api_key for api_key in ApiKey}
    if wanted in names:
        return int(names[wanted])
    nearest = nearest_name(wanted, names)
    hint = (
        "names are Kafka's, such as Produce or list_offsets"
        if nearest is None
        else f"did you mean {names[nearest].kafka_name!r}?"
    )
    raise ValueError(f"there is no API {name!r}; {hint}")


class FaultStep:
    """The step of a dispatcher that applies the faults."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def __call__(self, handle: Handle, request: object, context: AnyContext) -> Answer:
        header = context.header
        fault = self._faults.take(header.api_key, header.client_id)
        if fault is None:
            return handle(request, context)
        if fault.disconnect:
            raise CloseConnection(f"a fault was asked for at {ApiKey(header.api_key).name}")
        if fault.error_code is None:
            answer = handle(request, context)
        else:
            answer = _refuse_request(request, context, fault.error_code)
        return Pending(_delay_answer(answer, fault.delay_ms / 1000)) if fault.delay_ms else answer


def _refuse_request(request: object, context: AnyContext, code: int) -> Message | Frame | None:
    header = context.header
    if isinstance(request, memoryview):
        if header.api_key == ApiKey.PRODUCE:
            return produce.refuse(request, cast("RequestContext[ProduceParts]", context), code)
        if header.api_key == ApiKey.FETCH:
            return fetch.refuse(request, cast("RequestContext[FetchParts]", context), code)
        request = decode_typed_request(header.api_key, header.api_version, request, header.body_position)
    message = failures.answer_with(
        header.api_key, header.api_version, request, code, "This fault was asked for."
    )
    if message is None:
        raise CloseConnection(f"{ApiKey(header.api_key).name} cannot answer an error")
    return message


async def _delay_answer(answer: Answer, seconds: float) -> AnyMessage:
    await asyncio.sleep(seconds)
    return await answer if isinstance(answer, Pending) else answer
