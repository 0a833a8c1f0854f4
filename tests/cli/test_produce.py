"""`odradek produce` against a running broker: nothing that was accepted is lost, and the account of it is true."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import odradek.testing
from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import COMMAND_SECONDS_MAX, Shell

pytestmark = pytest.mark.integration

GOOD = 20_000


def values(shell: Shell, topic: str) -> list[str]:
    return shell.run("consume", topic, "--from-beginning").splitlines()


def test_a_bad_line_keeps_the_good_ones_before_it_and_the_rest_can_follow(
    shell: Shell, unique: str, tmp_path: Path
) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    lines = [f"k:{number}" for number in range(GOOD)]
    file = tmp_path / "lines"
    file.write_text("\n".join([*lines, "bad", "k:last"]) + "\n")
    command = ("produce", unique, "-K", ":", "--file", str(file))
    shell.run(*command, code=ExitCode.FAILED)
    assert shell.error == (
        f"odradek: line {GOOD + 1} has no ':' between key and value; {GOOD} records were written, up to line {GOOD}; "
        f"to continue from there, add --skip-lines {GOOD}\n"
    )
    file.write_text("\n".join([*lines, "k:mended", "k:last"]) + "\n")
    shell.run(*command, "--skip-lines", str(GOOD))
    assert values(shell, unique) == [*map(str, range(GOOD)), "mended", "last"]


def test_a_bad_line_of_json_is_counted_with_the_empty_ones(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "3")
    given = (
        '{"value": "a"}\n\n{"value": "b", "partition": 2}\n\n{"value": "c", "partition": 3}\n{"value": "d"}\n'
    )
    shell.run("produce", unique, "--json", input=given, code=ExitCode.NOT_FOUND)
    assert shell.error == (
        f"odradek: line 5: topic '{unique}' has no partition 3; it has 3, numbered from 0; "
        "2 records were written, up to line 3; to continue from there, add --skip-lines 3\n"
    )
    shell.run("produce", unique, "--json", input='{"valu": "a"}\n', code=ExitCode.FAILED)
    assert shell.error == (
        "odradek: line 1: there is no field 'valu'; did you mean 'value'?; no record was written\n"
    )
    assert sorted(values(shell, unique)) == ["a", "b"]


def test_ctrl_c_says_how_many_records_were_written(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    with shell.start("produce", unique, "--rate", "0.0001") as slow:
        assert slow.stdin is not None
        slow.stdin.write(b"slow\nslower\n")
        slow.stdin.flush()
        shell.run("consume", unique, "--offset", "0", "--follow", "--max", "1")  # the first has arrived
        slow.send_signal(signal.SIGINT)
        _, error = slow.communicate(timeout=COMMAND_SECONDS_MAX)
    assert (slow.returncode, error.strip()) == (
        ExitCode.INTERRUPTED,
        b"odradek: interrupted: 1 record was written, up to line 1; to continue from there, add --skip-lines 1",
    )


def test_ctrl_c_sends_what_was_read(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    with shell.start("produce", unique, "--linger-ms", "60000") as typing:
        assert typing.stdin is not None
        typing.stdin.write(b"0123456789\n" * 30_000)  # more than a pipe holds, so that most of it was read
        typing.stdin.flush()
        typing.send_signal(signal.SIGINT)
        _, error = typing.communicate(timeout=COMMAND_SECONDS_MAX)
    assert typing.returncode == ExitCode.INTERRUPTED
    found = re.search(r"interrupted: (\d+) records were written, up to line (\d+); ", error.decode())
    assert found is not None, error
    assert len(values(shell, unique)) == int(found[1]) == int(found[2]) > 10_000


def test_what_a_broker_refuses_later_is_told_with_what_it_took() -> None:
    with odradek.testing.broker() as broker:
        broker.create_topic("ended")
        broker.fail("Produce", error="INVALID_RECORD", after=3)
        shell = Shell(broker.bootstrap)
        lines = "".join(f"{number}\n" for number in range(1_000))
        shell.run("produce", "ended", "--batch-bytes", "1000", input=lines, code=ExitCode.REFUSED)
        found = re.search(
            r"; (\d+) of 1000 records were written, all up to line (\d+); to continue", shell.error
        )
        assert found is not None, shell.error
        assert found[1] == found[2]
        broker.clear_faults()
        assert len(values(shell, "ended")) == int(found[1])
        shell.run("produce", "ended", "--skip-lines", found[2], input=lines)
        assert values(shell, "ended") == lines.splitlines()


@pytest.mark.parametrize(
    "command", [("produce", "refused"), ("perf", "produce", "refused", "--records", "1")]
)
def test_a_refusing_broker_is_named_long_before_records_expire(command: tuple[str, ...]) -> None:
    with odradek.testing.broker() as broker:
        broker.create_topic("refused")
        broker.fail("Produce", error="NOT_ENOUGH_REPLICAS")
        shell = Shell(broker.bootstrap)
        with shell.start(*command, "--timeout", "60") as waiting:
            assert waiting.stdin is not None and waiting.stderr is not None
            waiting.stdin.write(b"a\n")
            waiting.stdin.flush()
            said = waiting.stderr.readline().decode()
            assert said.startswith("odradek: records for refused-0 wait, since the broker refuses them: ")
            broker.clear_faults()
            waiting.communicate(timeout=COMMAND_SECONDS_MAX)
        assert waiting.returncode == 0


def test_records_that_expire_are_counted_with_the_last_error() -> None:
    with odradek.testing.broker() as broker:
        broker.create_topic("refused")
        broker.fail("Produce", error="NOT_ENOUGH_REPLICAS")
        shell = Shell(broker.bootstrap)
        shell.run("perf", "produce", "refused", "--timeout", "2", code=ExitCode.TIMEOUT)
        assert re.fullmatch(
            r"odradek: \d+ records for refused-0 could not be written in 2 s; the last error: .*",
            shell.error.splitlines()[-1],
        )


def test_a_broker_that_goes_away_is_told_once_with_what_it_took() -> None:
    with odradek.testing.broker() as broker:
        broker.create_topic("left")
        shell = Shell(broker.bootstrap)
        with shell.start("produce", "left", "--timeout", "3") as typing:
            assert typing.stdin is not None
            typing.stdin.write(b"a\nb\n")
            typing.stdin.flush()
            assert shell.run("consume", "left", "--offset", "0", "--follow", "--max", "2") == "a\nb\n"
            broker.kill()
            _, error = typing.communicate(b"c\n" * 200_000, timeout=COMMAND_SECONDS_MAX)
    said = error.decode().splitlines()
    assert typing.returncode == ExitCode.TIMEOUT, said
    assert sum("the metadata could not be refreshed" in line for line in said) == 1, said
    assert sum("wait, since the broker refuses them" in line for line in said) == 1, said
    assert (
        "2 of 200002 records were written, all up to line 2; to continue from there, add --skip-lines 2 ("
        in said[-1]
    )


def test_lines_of_a_transaction_are_all_there_or_none(shell: Shell, unique: str) -> None:
    read = ("consume", unique, "--from-beginning", "--isolation", "read_committed")
    command = ("produce", unique, "-K", ":", "--transactional-id", unique)
    shell.run("topics", "create", unique, "-p", "1")
    shell.run(*command, input="k:1\nk:2\n")
    shell.run(*command, input="k:3\nbad\n", code=ExitCode.FAILED)
    assert shell.error == (
        "odradek: line 2 has no ':' between key and value; "
        "the transaction is aborted, so readers of committed records see no record; send all lines again\n"
    )
    assert shell.run(*read).splitlines() == ["1", "2"]
    assert values(shell, unique) == ["1", "2", "3"]


def test_lines_that_are_skipped_are_there(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, "--skip-lines", "2", input="a\nb\nc")
    shell.run("produce", unique, "--skip-lines", "3", input="a\nb\nc")
    shell.run("produce", unique, "--skip-lines", "4", input="a\nb\nc", code=ExitCode.FAILED)
    assert "the input ends after line 3, so --skip-lines 4 leaves nothing" in shell.error
    assert values(shell, unique) == ["c"]


def test_carriage_returns_are_kept_unless_lines_end_with_them(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, input=b"kept\r\n")
    shell.run("produce", unique, "--crlf", input=b"dropped\r\none of two\r\r\nnone\n\r\n")
    found = shell.json_lines("consume", unique, "--from-beginning")
    assert [line["value"] for line in found] == ["kept\r", "dropped", "one of two\r", "none", ""]


def test_a_topic_that_is_made_by_writing_is_made_known(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique + "-orders", "-p", "1")
    shell.run("produce", unique + "-ordesr", "--no-create", input="a\n", code=ExitCode.NOT_FOUND)
    assert shell.error == (
        f"odradek: there is no topic '{unique}-ordesr' (did you mean '{unique}-orders'?); make it with "
        f"`odradek topics create {unique}-ordesr`, or leave --no-create out\n"
    )
    shell.run("produce", unique + "-ordesr", input="a\n", code=ExitCode.NOT_FOUND)
    assert shell.error == (
        f"odradek: there is no topic '{unique}-ordesr'; did you mean '{unique}-orders'? To create "
        f"'{unique}-ordesr', add --create\n"
    )
    shell.run("produce", unique + "-ordesr", "--create", input="a\n")
    assert shell.error == (
        f"odradek: there was no topic '{unique}-ordesr' (did you mean '{unique}-orders'?); the broker has created it, "
        "with 1 partition\n"
    )
    shell.run("produce", unique + "-ordesr", "--no-create", input="b\n")
    assert shell.error == ""
    assert values(shell, unique + "-ordesr") == ["a", "b"]


def test_a_broker_that_makes_no_topics_is_said_to(tmp_path: Path) -> None:
    with odradek.testing.broker(settings={"auto.create.topics.enable": "false"}) as broker:
        shell = Shell(broker.bootstrap)
        shell.run("produce", "orders", input="a\n", code=ExitCode.NOT_FOUND)
        assert (
            "and the broker creates none by itself (auto.create.topics.enable); make it with" in shell.error
        )


def test_a_name_that_no_topic_may_have_is_refused_as_by_topics_create() -> None:
    with odradek.testing.broker() as broker:
        shell = Shell(broker.bootstrap)
        for name in ("bad/name", ".."):
            shell.run("topics", "create", name, code=ExitCode.REFUSED)
            expected = shell.error
            shell.run("produce", name, input="a\n", code=ExitCode.REFUSED)
            assert shell.error == expected
            shell.run("perf", "produce", name, code=ExitCode.REFUSED)
            assert shell.error == expected
    shell.run("produce", "bad/name", input="a\n", code=ExitCode.REFUSED)  # at once: no broker is asked


def test_nested_json_goes_round(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    given = [
        {"key": {"id": 1}, "value": {"a": [1, None, "ü"], "b": {"c": 1.5}}},
        {"key": 7, "value": [1, 2]},
        {"key": "text", "value": True},
        {"value": None},
    ]
    shell.run("produce", unique, "--json", input="\n".join(map(json.dumps, given)))
    first = shell.json_lines("consume", unique, "--from-beginning")
    expected = ['{"a":[1,null,"ü"],"b":{"c":1.5}}', "[1,2]", "true", None]
    assert [line["value"] for line in first] == expected
    assert [line["key"] for line in first] == ['{"id":1}', "7", "text", None]


def test_progress_of_a_file_is_told_in_bytes(shell: Shell, unique: str, tmp_path: Path) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    file = tmp_path / "lines"
    file.write_bytes(b"x" * 1023 + b"\n")
    watcher, terminal = pty.openpty()
    with shell.start("produce", unique, "--file", str(file), stderr=terminal) as process:
        process.wait(COMMAND_SECONDS_MAX)
    os.close(terminal)
    shown = os.read(watcher, 100_000).decode()
    os.close(watcher)
    assert "/?" not in shown
    assert "1.0/1.0 KiB" in shown
    assert f"1 record sent to {unique}" in shown


def test_many_lines_with_keys_arrive_once(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "6")
    lines = "".join(f"key {number % 1000}\t{number}\n" for number in range(100_000))
    shell.run("produce", unique, "-K", "\\t", "-z", "lz4", input=lines)
    assert sorted(map(int, values(shell, unique))) == list(range(100_000))


def test_an_input_that_the_shell_closed_is_an_error(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique)
    command = f"{sys.executable} -m odradek produce {unique} <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, env=shell.environment, check=False)
    assert done.stderr == b"odradek: stdin is closed, and this command needs it; no record was written\n"
    assert done.returncode == ExitCode.FAILED
