"""The one table of error numbers agrees with Kafka's, and no other module writes a number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

import odradek
from odradek.foundation import errors
from odradek.wire.protocol.errors import (
    BY_CODE,
    ROWS,
    Retry,
    code_of,
    error_code,
    error_message,
    error_number,
)

# Kafka's names where they differ from the class's.
OTHER_NAMES = {
    "CorruptRecord": "corrupt_message",
    "RecordTooLarge": "message_too_large",
    "InvalidTopic": "invalid_topic_exception",
    "InvalidCommitOffsetSize": "offset_metadata_too_large",
    "OutOfOrderSequence": "out_of_order_sequence_number",
    "DuplicateSequence": "duplicate_sequence_number",
}
# Kafka's clients retry upon these, and ours raise them. A fetch session is begun again without an exception, and
# administrators request elections. The others are answers to brokers, or belong to features that are not there.
RAISED_AT_ONCE = {
    "REPLICA_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "FETCH_SESSION_TOPIC_ID_ERROR",
    "LISTENER_NOT_FOUND",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "ELECTION_NOT_NEEDED",
}
# Of Kafka 4.4, which kio does not have yet.
SINCE_KIO = {
    134: "GROUP_DELETION_FAILED",
    135: "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
    136: "CONTROLLER_ID_NOT_REGISTERED",
}
BROKER = Path(odradek.__file__).parent
HOME = BROKER / "protocol" / "errors.py"


def subclasses(kind: type) -> set[type]:
    children: list[type] = kind.__subclasses__()
    return {kind}.union(*(subclasses(child) for child in children))


def declared_errors() -> list[type]:
    found = [kind for kind in subclasses(errors.RequestError) if kind.__module__ == errors.__name__]
    bases = {errors.RequestError, errors.MissingByName}
    return sorted(set(found) - bases, key=lambda kind: kind.__name__)


def test_the_table_has_kafkas_numbers_and_names() -> None:
    assert {row.code: row.name for row in ROWS} == {
        **{int(error.value): error.name.upper() for error in ErrorCode if error.value},
        **SINCE_KIO,
    }
    assert [row.code for row in ROWS] == sorted(BY_CODE)


@pytest.mark.parametrize("kind", declared_errors(), ids=lambda kind: kind.__name__)
def test_every_error_that_is_answered_has_the_number_of_its_name(kind: type) -> None:
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    name = OTHER_NAMES.get(kind.__name__, snake)
    assert code_of(kind) == int(ErrorCode[name].value), name


def test_clients_try_again_where_kafkas_do() -> None:
    ours = {row.name for row in ROWS if row.retry is not Retry.NEVER}
    assert ours | RAISED_AT_ONCE == {error.name.upper() for error in ErrorCode if error.retriable}
    assert not ours & RAISED_AT_ONCE


def test_a_kind_without_a_row_answers_as_its_ancestor() -> None:
    class StrangerError(errors.InvalidRecord):
        pass

    assert error_code(StrangerError("x")) == 87


def test_the_text_of_an_unexpected_error_is_hidden() -> None:
    assert error_code(KeyError("secret")) == -1
    assert "secret" not in (error_message(KeyError("secret")) or "")


def test_no_error_is_zero() -> None:
    assert error_code(None) == 0
    assert error_message(None) is None


def test_a_name_or_a_number_finds_its_row() -> None:
    assert error_number("not_leader_or_follower") == error_number(6) == 6
    with pytest.raises(ValueError, match="did you mean 'NOT_CONTROLLER'"):
        error_number("NOT_CONTROLER")
    with pytest.raises(ValueError, match="from -1 to 136"):
        error_number(0)


# --- no other module writes a number -----------------------------------------------------------------------------


def _names_a_code(node: ast.expr | None) -> bool:
    """Whether an expression is called after an error code: `code`, `x.error_code`, `_NOT_LEADER_CODE`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "int" and _names_a_code(node.args[0])
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return bool(re.search(r"(^|_)(error|failure)?_?codes?$", name.lower())) and "exit" not in name.lower()


def _is_code(node: ast.AST) -> bool:
    """Whether an expression has an error number in it."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _is_code(node.operand)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(_is_code(element) for element in node.elts)
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value != 0


def _written_numbers(source: str) -> Iterator[int]:
    """The lines that give an error code a number or compare one with a number."""
    tree = ast.parse(source)
    names = {row.name for row in ROWS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(_names_a_code, sides)) and any(map(_is_code, sides)):
                yield node.lineno
        elif isinstance(node, ast.keyword) and node.arg == "error_code" and _is_code(node.value):
            yield node.value.lineno
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "error_code" and _is_code(value):
                    yield value.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_code(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                name = target.id.strip("_") if isinstance(target, ast.Name) else ""
                if name.removesuffix("_CODE") in names or _names_a_code(target):
                    yield node.lineno


def test_the_scan_finds_numbers() -> None:
    for line in (
        "if answer.error_code == 6: pass",
        "if int(one.error_code) in (6, 74): pass",
        "f(error_code=-1)",
        'row = {"error_code": 3}',
        "_FENCED_LEADER_EPOCH: Final = 74",
        "MEMBER_ID_REQUIRED_CODE = 79",
        "code = 35",
    ):
        assert list(_written_numbers(line)) == [1], line
    assert not list(_written_numbers("if answer.error_code == 0: exit_code = 2"))


# Exit codes of processes, which are called codes too.
NOT_OF_THE_PROTOCOL = {"cli", "__main__.py"}


@pytest.mark.thorough
def test_no_other_module_writes_an_error_number() -> None:
    found = [
        f"{path.relative_to(BROKER)}:{line}"
        for path in sorted(BROKER.rglob("*.py"))
        if path != HOME and path.relative_to(BROKER).parts[0] not in NOT_OF_THE_PROTOCOL
        for line in _written_numbers(path.read_text())
    ]
    assert not found, "name the exception and take its number from odradek.wire.protocol.errors"
