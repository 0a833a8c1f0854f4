"""The guard of costs finds costs that are planted, and nothing in a broker as it is."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.requests import dispatch, long_requests, metadata
from odradek.broker.requests.rights import groups, rights, rules
from odradek.storage.append_rules import AppendRules
from odradek.wire.protocol import codec
from odradek.wire.records.compression import Compression
from tests.fuzz import costs
from tests.fuzz.costs import AUTHORIZER, Case, Cost, CostWorld, Excess, bomb, play, row, run
from tests.support.costs import YARDSTICK_CPU_SECONDS

Patch = pytest.MonkeyPatch
NEVER = 1 << 40


def _list_for_a_set(patch: Patch) -> None:
    """Names that are denied are looked for in a list of all."""

    def slow(elements: Any, is_allowed: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
        allowed, others = rules_partitioned(elements, is_allowed)
        return allowed, [one for one in others if others.count(one)]

    rules_partitioned = rules.partition_elements
    patch.setattr(groups, "partition_elements", slow)
    _one_turn(patch)


def _one_turn(patch: Patch) -> None:
    """A large request is answered as a whole."""
    patch.setattr("odradek.broker.requests.long_requests.split_of", lambda *_: None)
    patch.setattr(metadata, "REQUEST_ELEMENTS_PER_TURN_MAX", NEVER)
    patch.setattr(rules, "REQUEST_ELEMENTS_PER_TURN_MAX", NEVER)


def _decode_in_the_loop(patch: Patch) -> None:
    patch.setattr(dispatch, "REQUEST_BYTES_AT_ONCE_MAX", NEVER)


def _decompress_in_the_loop(patch: Patch) -> None:
    patch.setattr(AppendRules, "admit_at_once", AppendRules.admit)


def _a_line_for_each_name(patch: Patch) -> None:
    """Lines without a bound."""
    patch.setattr(rights, "_denied_lines", logging.getLogger(rights.LOGGER_NAME))


def _keep_every_frame(patch: Patch) -> None:
    kept: list[bytes] = []
    encode = codec.encode_response

    def keeping(*arguments: Any) -> bytes:
        encoded = encode(*arguments)
        kept.append(encoded * 2000)
        return encoded

    for road in (dispatch, long_requests):
        patch.setattr(road, "encode_response", keeping)


def _copy_for_each_element(patch: Patch) -> None:
    """A copy of the whole request is kept until it is answered, for each of some elements."""
    decode = codec.decode_typed_request

    def copying(api: Any, version: int, body: Any, position: int) -> Any:
        copies = [bytearray(body) for _ in range(4000)]
        message = decode(api, version, body, position)
        copies.clear()
        return message

    for road in (dispatch, long_requests):
        patch.setattr(road, "decode_typed_request", copying)


def _count_each_among_all(patch: Patch) -> None:
    """A number of each name is found by a look at all of them."""
    from odradek.broker.requests import describe_user_scram_credentials as scram

    def handle(request: Any, context: Any) -> Any:
        names = [one.name for one in request.users or ()]
        return context.response(
            results=[scram._result(name, {}, is_twice=names.count(name) > 1) for name in names]
        )

    patch.setattr(scram, "handle", handle)
    _one_turn(patch)


def _build_text_from_the_front(patch: Patch) -> None:
    """A text of all names is made again for each."""
    from odradek.broker.requests import describe_groups

    coordinated = describe_groups._describe_group

    def slow(group_id: str, context: Any) -> Any:
        texts = context.connection.state.setdefault("texts", [""])
        texts[0] = f"{texts[0]},{group_id}" + ""
        len(texts[0].split(","))
        return coordinated(group_id, context)

    patch.setattr(describe_groups, "_describe_group", slow)


def _write_each_by_itself(patch: Patch) -> None:
    """An image of all settings is made for each entry of a request."""
    from odradek.metadata.controller.registry_writer import RegistryWriter

    async def each(self: Any, groups: Any) -> None:
        for group in groups:
            await self.write(group)

    patch.setattr(RegistryWriter, "write_in_parts", each)


FIND = row("find coordinator")
# Every name of it is denied.
DENIED = row("list offsets")
# Sizes are chosen so that what is planted exceeds its bound by three times and more, also on a busy machine.
PLANTED: dict[str, tuple[Callable[[Patch], None], Case, int, dict[str, str], str]] = {
    "a list for a set": (_list_for_a_set, row("offset fetch"), 2000, AUTHORIZER, "turn of|times the time"),
    "a request in one turn": (_one_turn, row("list offsets"), 8000, AUTHORIZER, "a turn of"),
    "names of metadata in one turn": (_one_turn, row("metadata"), 24_000, AUTHORIZER, "a turn of"),
    "decoding in the loop": (_decode_in_the_loop, row("offset commit"), 12_000, {}, "a turn of"),
    "decompression in the loop": (
        _decompress_in_the_loop, bomb("compacted", Compression.ZSTD), 400_000, {}, "a turn of"
    ),
    "recompression in the loop": (
        _decompress_in_the_loop, bomb("zstd", Compression.GZIP), 150_000, {}, "a turn of"
    ),
    "a line for each name": (_a_line_for_each_name, DENIED, 4000, AUTHORIZER, "bytes of log"),
    "answers that are kept": (_keep_every_frame, FIND, 2000, {}, "MB of memory"),
    "memory that is given back": (_copy_for_each_element, FIND, 2000, {}, "a peak of"),
    "a count among all": (_count_each_among_all, row("describe scram"), 8000, {}, "a turn of|times the time"),
    "text that grows": (_build_text_from_the_front, row("describe groups"), 20_000, {}, "a turn of|times the time"),
    "an image for each entry": (
        _write_each_by_itself, row("alter client quotas"), 4000, {}, "a turn of|times the time"
    ),
}  # fmt: skip
QUICK = ("decoding in the loop",)
# Each of its three tries takes half a minute.
SLOWEST = ("an image for each entry",)


TRIES = 3


def _marks_of(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in QUICK:
        return ()
    return (pytest.mark.thorough, pytest.mark.proof) if name in SLOWEST else (pytest.mark.thorough,)


async def _found(case: Case, size: int, entries: dict[str, str]) -> Excess | None:
    world = await CostWorld.start(entries)
    try:
        reason = await world.excess(case, size)
        return None if reason is None else Excess(case.name, size, reason)
    finally:
        await world.stop()


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks_of(name)) for name in PLANTED])
def test_the_guard_finds_a_planted_cost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, case, size, entries, reason = PLANTED[name]
    plant(monkeypatch)
    # Bounds follow the yardstick, and one that is measured in a busy moment is too lenient for that try.
    found = None
    for _ in range(TRIES):
        found = found or run(_found(case, size, entries))
    assert found is not None and re.search(reason, found.reason), found


@pytest.mark.thorough
def test_a_peak_is_seen_in_a_process_that_has_freed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = [bytearray(8_000) for _ in range(40_000)]
    last = bytearray(8_000)  # above them on the heap, which does not shrink while it is there
    freed.clear()
    _copy_for_each_element(monkeypatch)
    found = run(_found(FIND, 2000, {}))
    assert found is not None and "a peak of" in found.reason, found
    del last


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.thorough) for one in PLANTED])
def test_nothing_is_found_where_nothing_is_planted(name: str) -> None:
    _, case, size, entries, _ = PLANTED[name]
    # A search for garbage may be a long turn of its own: what a request costs is found each time.
    found = [run(_found(case, size, entries))]
    while found[-1] is not None and len(found) < TRIES:
        found.append(run(_found(case, size, entries)))
    assert found[-1] is None, found


@pytest.mark.thorough
def test_what_costs_too_much_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    _a_line_for_each_name(monkeypatch)

    async def minimised() -> Excess:
        world = await CostWorld.start(AUTHORIZER)
        reason = await world.excess(DENIED, 2000)
        assert reason is not None
        found = await world.minimised(DENIED, 2000, reason)
        await world.stop()
        return found

    assert run(minimised()).size < 2000


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_a_share_of_the_guard_finds_nothing(seed: int) -> None:
    found = [run(play(seed)).excesses]
    while found[-1] and len(found) < TRIES:
        found.append(run(play(seed)).excesses)
    assert found[-1] == [], found


@pytest.mark.parametrize(("slowness", "is_found"), [(1.0, True), (2.0, False)])
def test_a_slow_machine_has_longer_turns(slowness: float, is_found: bool) -> None:
    few, many = Cost(0.02, 0.02, 0, 0), Cost(0.09, 0.09, 0, 0)
    assert (costs._reason(few, many, slowness=slowness) is not None) == is_found


def test_the_machine_is_measured_beside_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "measure_yardstick", lambda: 6 * YARDSTICK_CPU_SECONDS)
    assert costs._slowness() == 6.0
    monkeypatch.setattr(costs, "measure_yardstick", lambda: YARDSTICK_CPU_SECONDS / 2)
    assert costs._slowness() == 1.0
