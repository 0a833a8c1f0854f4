"""`odradek consume` against a running broker: what it prints, and what it says on stderr."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from odradek.cli.exit_codes import ExitCode
from odradek.client.admin.logs import LogAdmin
from odradek.client.client import Client
from odradek.foundation.ids import TopicPartition
from tests.cli.conftest import Shell
from tests.support.peers import Peer
from tests.support.polling import SECONDS_MAX

pytestmark = pytest.mark.integration

needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


def fill(shell: Shell, topic: str, lines: str, *options: str) -> None:
    shell.run("produce", topic, *options, input=lines)


@pytest.fixture
def topic(shell: Shell, unique: str) -> str:
    """A topic of one partition with four records, two of them with nulls."""
    shell.run("topics", "create", unique, "-p", "1")
    fill(shell, unique, "a:1\nb:NULL\nc:ü\n", "-K", ":", "--null-value", "NULL", "-H", "h=1", "-H", "g=x y")
    fill(shell, unique, "no key\n")
    return unique


# --- offsets that are not there -------------------------------------------------------------------------------------


def test_an_offset_beyond_the_end_is_an_error_that_says_what_there_is(shell: Shell, topic: str) -> None:
    assert shell.run("consume", topic, "--offset", "99999", code=ExitCode.REFUSED) == ""
    assert shell.error == (
        f"odradek: offset 99999 is beyond the end: partition {topic}-0 has offsets 0 to 3. "
        "Start before the end, with --offset -10 for the last ten, or add --follow to wait for 99999\n"
    )
    assert shell.run("consume", topic, "--offset", "3") == "no key\n"
    assert shell.run("consume", topic, "--offset", "4") == ""


def test_an_offset_that_was_deleted_is_an_error_that_says_what_there_is(
    shell: Shell, bootstrap: str, unique: str
) -> None:
    async def delete_two() -> None:
        async with Client(bootstrap) as client:
            await LogAdmin(client).delete_records({TopicPartition(unique, 0): 2})

    shell.run("topics", "create", unique, "-p", "1")
    fill(shell, unique, "a\nb\nc\n")
    asyncio.run(delete_two())
    shell.run("consume", unique, "--offset", "0", code=ExitCode.REFUSED)
    assert f"offset 0 no longer exists: partition {unique}-0 has offsets 2 to 2. Start with" in shell.error


def test_an_offset_that_only_some_partitions_have_is_read_there(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "2")
    fill(shell, unique, "a\nb\nc\n", "-p", "0")
    assert shell.run("consume", unique, "--offset", "2") == "c\n"
    assert (
        shell.error
        == f"partition {unique}-1 is empty and its next offset is 0: nothing to read from offset 2 on\n"
    )


def test_a_topic_that_is_deleted_while_it_is_read_is_an_error(shell: Shell, topic: str) -> None:
    with shell.start("consume", topic, "--from-beginning", "--follow") as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"1\n"
        shell.run("topics", "delete", topic, "--execute")
        _, complaint = reader.communicate(timeout=SECONDS_MAX)
    assert reader.returncode == ExitCode.NOT_FOUND
    assert f"there is no topic '{topic}' any more: it was deleted while it was read" in complaint.decode()


def test_follow_waits_for_an_offset_that_is_not_there_yet(shell: Shell, topic: str) -> None:
    with shell.start("consume", topic, "--offset", "5", "--follow", "-n", "1") as process:
        assert process.stderr is not None
        assert process.stderr.readline().decode() == (
            f"partition {topic}-0 has offsets 0 to 3: waiting for offset 5\n"
        )
        fill(shell, topic, "four\nfive\n")
        out, _ = process.communicate(timeout=SECONDS_MAX)
    assert out == b"five\n"


# --- formats --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@needs_kcat
@pytest.mark.parametrize(
    "template", [r"%t %p %o %k %s\n", r"%S,%K,%T\t[%h]\r\n", "%R", r"100%% {%k} {x} \x41\x4\012\\\q|\n"]
)
@pytest.mark.parametrize("null", [(), ("NULL",)])
def test_kcats_formats_print_what_kcat_prints(
    shell: Shell, bootstrap: str, topic: str, template: str, null: tuple[str, ...]
) -> None:
    if not null:  # kcat's -Z takes what is empty for null
        fill(shell, topic, "empty value:\n:empty key\n", "-K", ":")
    command = ["kcat", "-C", "-e", "-q", "-b", bootstrap, "-t", topic, "-o", "beginning", "-f", template]
    expected = subprocess.run(
        [*command, *(["-Z"] if null else [])], capture_output=True, check=True, timeout=SECONDS_MAX
    )
    options = ("--null-value", *null) if null else ()
    with shell.start("consume", topic, "--from-beginning", "-f", template, *options) as process:
        out, error = process.communicate(timeout=SECONDS_MAX)
    assert (out, error) == (expected.stdout, b"")
    assert out


def test_fields_are_aligned(shell: Shell, topic: str) -> None:
    assert shell.run(
        "consume", topic, "--from-beginning", "--format", "{offset:>3}|{key:>2}|{value:<4.3}|"
    ) == ("  0| a|1   |\n  1| b|    |\n  2| c|ü   |\n  3|  |no  |\n")


def test_null_is_printed_as_asked_and_read_back_as_null(shell: Shell, topic: str) -> None:
    assert shell.run("consume", topic, "--from-beginning", "--keys") == "a\t1\nb\t\nc\tü\n\tno key\n"
    shown = shell.run("consume", topic, "--from-beginning", "--keys", "--null-value", "NIL")
    assert shown == "a\t1\nb\tNIL\nc\tü\nNIL\tno key\n"


def test_a_person_sees_which_values_are_null(shell: Shell, topic: str) -> None:
    shown = on_terminal(shell, "consume", topic, "--from-beginning", "--keys", streams="out")
    assert "b\t\x1b[2mNULL\x1b[0m" in shown
    assert "\x1b[2mNULL\x1b[0m\tno key" in shown


def test_json_values_are_nested_and_read_back(shell: Shell, topic: str, unique: str) -> None:
    copy = f"{unique}.copy"
    shell.run("topics", "create", copy, "-p", "1")
    fill(shell, copy, '{"id":1}|{"a": [1, "ü"]}\nplain|"text"\n', "-K", "|")
    lines = shell.run("consume", copy, "--from-beginning", "--output", "json", "--json-values")
    records = [json.loads(line) for line in lines.splitlines()]
    assert [(one["key"], one["value"]) for one in records] == [
        ({"id": 1}, {"a": [1, "ü"]}),
        ("plain", '"text"'),
    ]
    fill(shell, topic, lines, "--json")
    again = shell.json_lines("consume", topic, "--offset", "4")
    assert [(one["key"], json.loads(one["value"])) for one in again] == [
        ('{"id":1}', {"a": [1, "ü"]}),
        ("plain", "text"),
    ]


# --- topics by pattern ----------------------------------------------------------------------------------------------


def test_a_pattern_reads_all_topics_that_match(shell: Shell, unique: str) -> None:
    for name in ("orders", "orders.eu", "bills"):
        shell.run("topics", "create", f"{unique}.{name}", "-p", "1")
        fill(shell, f"{unique}.{name}", f"{name}\n")
    shown = shell.run("consume", f"{unique}.ord.*", "--from-beginning")
    assert sorted(shown.split()) == ["orders", "orders.eu"]
    shown = shell.run(
        "consume", f"{unique}.(bills|orders)", "--group", unique, "--from-beginning", "--exit-at-end"
    )
    assert sorted(shown.split()) == ["bills", "orders"]
    shell.run("consume", f"{unique}.bill", "--from-beginning", code=ExitCode.NOT_FOUND)
    assert f"there is no topic '{unique}.bill'" in shell.error
    shell.run("consume", f"{unique}.bill", "--regex", "--from-beginning", code=ExitCode.NOT_FOUND)
    assert (
        f"no topic matches '{unique}.bill'; a pattern is a regular expression for the whole name"
        in shell.error
    )


@pytest.mark.parametrize("group", [True, False])
def test_new_topics_that_match_join_in_while_following(shell: Shell, unique: str, group: bool) -> None:
    options = ("--group", unique) if group else ()
    shell.run("topics", "create", f"{unique}.a", "-p", "1")
    with shell.start(
        "consume", f"{unique}.*", "--follow", "--from-beginning", "-n", "2", *options
    ) as process:
        assert process.stdout is not None
        fill(shell, f"{unique}.a", "first\n")
        assert process.stdout.readline() == b"first\n"
        shell.run("topics", "create", f"{unique}.b", "-p", "1")
        fill(shell, f"{unique}.b", "second\n")
        out, error = process.communicate(timeout=SECONDS_MAX)
    assert (out, error) == (b"second\n", b"")


def test_follow_waits_for_a_topic_that_matches(shell: Shell, unique: str) -> None:
    with shell.start("consume", f"{unique}.*", "--follow", "-n", "1") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"no topic matches yet: waiting for one\n"
        shell.run("topics", "create", f"{unique}.a", "-p", "1")
        fill(shell, f"{unique}.a", "first\n")
        out, _ = process.communicate(timeout=SECONDS_MAX)
    assert out == b"first\n"


# --- progress -------------------------------------------------------------------------------------------------------


def on_terminal(shell: Shell, *arguments: str, streams: str, out: Path | None = None) -> str:
    """What a terminal showed of a command whose stdout or stderr it is."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "odradek", *arguments]
    with open(out or os.devnull, "wb") as other:
        first, second = (theirs, other) if streams == "out" else (other, theirs)
        with subprocess.Popen(command, env=shell.environment, stdout=first, stderr=second) as process:
            os.close(theirs)
            shown = b""
            while True:
                try:
                    shown += os.read(ours, 65536)
                except OSError:  # the last writer closed it
                    break
            assert process.wait(timeout=SECONDS_MAX) == 0, shown.decode()
    os.close(ours)
    return shown.decode()


def test_progress_is_shown_where_a_file_is_written(shell: Shell, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "records"
    shown = on_terminal(shell, "consume", topic, "--from-beginning", streams="error", out=file)
    assert "100 %  4 records" in shown
    assert file.read_text() == "1\n\nü\nno key\n"
    shown = on_terminal(
        shell, "consume", topic, "--from-beginning", "--no-progress", streams="error", out=file
    )
    assert shown == ""


def test_nothing_but_records_is_shown_where_a_pipe_is_read(shell: Shell, topic: str) -> None:
    assert shell.run("consume", topic, "--from-beginning", "--progress")
    assert shell.error == ""


# --- a broker that is away ------------------------------------------------------------------------------------------


def test_a_broker_that_is_away_is_told_once_and_once_when_it_is_back(
    shell: Shell, broker: Peer, topic: str
) -> None:
    with shell.start("consume", topic, "--from-beginning", "--follow", "-n", "5") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"1\n"
        broker.stop()
        begun = process.stderr.readline().decode()
        broker.start()
        fill(shell, topic, "again\n")
        out, error = process.communicate(timeout=SECONDS_MAX)
    assert begun.endswith("; trying again until it answers\n")
    assert re.fullmatch(r"the broker answers again, after [0-9.]+ s\n", error.decode())
    assert out.endswith(b"again\n")


@pytest.mark.parametrize("is_frozen", [False, True])
def test_printing_leaves_the_garbage_collector_as_it_was(
    bootstrap: str, unique: str, shell: Shell, invoke: Callable[..., Result], is_frozen: bool
) -> None:
    shell.run("produce", unique, input="a\n")
    gc.unfreeze()
    try:
        if is_frozen:
            gc.freeze()
        before = gc.get_threshold(), gc.get_freeze_count() > 0
        read = invoke("consume", unique, "--from-beginning", "--no-progress", "--bootstrap", bootstrap)
        assert (read.exit_code, read.stdout) == (0, "a\n")
        assert (gc.get_threshold(), gc.get_freeze_count() > 0) == before
    finally:
        gc.freeze()  # as at the beginning of the run
