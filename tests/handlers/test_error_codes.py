"""Every error of the domain has Kafka's number."""

import re

import pytest
from kio.schema.errors import ErrorCode

from odradek.foundation import errors
from odradek.handlers.errors import ERROR_CODES, error_code, error_message

# Kafka's names where they differ from the class's.
OTHER_NAMES = {
    "CorruptRecord": "corrupt_message",
    "RecordTooLarge": "message_too_large",
    "InvalidTopic": "invalid_topic_exception",
    "InvalidCommitOffsetSize": "offset_metadata_too_large",
    "OutOfOrderSequence": "out_of_order_sequence_number",
    "DuplicateSequence": "duplicate_sequence_number",
}


def subclasses(kind: type) -> set[type]:
    children: list[type] = kind.__subclasses__()
    return {kind}.union(*(subclasses(child) for child in children))


def declared_errors() -> list[type]:
    found = [kind for kind in subclasses(errors.RequestError) if kind.__module__ == errors.__name__]
    return sorted((kind for kind in found if kind is not errors.RequestError), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", declared_errors(), ids=lambda kind: kind.__name__)
def test_every_error_that_is_answered_has_the_number_of_its_name(kind: type) -> None:
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    name = OTHER_NAMES.get(kind.__name__, snake)
    assert ERROR_CODES[kind] == int(ErrorCode[name].value), name


def test_a_kind_without_a_row_answers_as_its_ancestor() -> None:
    class StrangerError(errors.InvalidRecord):
        pass

    assert error_code(StrangerError("x")) == 87


def test_an_unexpected_error_tells_nothing_of_its_text() -> None:
    assert error_code(KeyError("secret")) == -1
    assert "secret" not in (error_message(KeyError("secret")) or "")


def test_no_error_is_zero() -> None:
    assert error_code(None) == 0
    assert error_message(None) is None
