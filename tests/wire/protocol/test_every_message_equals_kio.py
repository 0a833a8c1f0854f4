"""Ours and kio's own reader and writer agree on every message of every version, byte for byte."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.reading import structure_reader
from odradek.wire.protocol.schema import data_class, versions_of_data
from odradek.wire.protocol.writing import structure_writer
from tests.support.examples import examples
from tests.wire.protocol.schemas import MESSAGES, classes, messages

pytestmark = pytest.mark.thorough

FEW = settings(
    max_examples=examples(6),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def check(structure: Any, message: Any) -> None:
    theirs = io.BytesIO()
    entity_writer(structure)(theirs, message)
    ours = bytearray()
    structure_writer(structure)(ours, message)
    assert bytes(ours) == theirs.getvalue()
    read, position = structure_reader(structure)(memoryview(ours), 0, [10_000])
    expected, size = entity_reader(structure)(bytes(ours), 0)
    assert (read, position) == (expected, size)
    assert read == message
    assert type(read) is structure


@pytest.mark.parametrize(("api_key", "kind"), MESSAGES, ids=lambda value: getattr(value, "name", value))
def test_requests_and_answers(api_key: ApiKey, kind: str) -> None:
    for _, structure in classes(api_key, kind):

        @FEW
        @given(st.just(structure), messages(structure))
        def agree(structure: Any, message: Any) -> None:
            check(structure, message)

        agree()


@pytest.mark.parametrize("name", ["consumer_protocol_subscription", "consumer_protocol_assignment"])
@given(st.data())
@settings(FEW, max_examples=examples(30))
def test_subscriptions_and_assignments_equal_kio(name: str, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions_of_data(name)))
    structure = data_class(name, version)
    check(structure, data.draw(messages(structure)))
