"""Offsets of groups deleted, reset, saved and set back, with our command line and Kafka's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import SOURCE, Shell
from tests.support.java import JavaUnavailableError
from tests.support.kafka_tools import run_kafka_tool
from tests.support.peers import skip_or_fail
from tests.support.polling import SECONDS_MAX

pytestmark = pytest.mark.integration

KAFKA_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def group(shell: Shell, unique: str) -> str:
    """A group of the same name as its topic of three partitions, with offsets 2, 2 and none."""
    shell.run("topics", "create", unique, "-p", "3")
    for partition in range(3):
        shell.run("produce", unique, "--partition", str(partition), input="a\nb\nc\nd\n")
    shell.run("groups", "reset-offsets", unique, "--topic", f"{unique}:0,1", "--to-offset", "2", "--execute")
    return unique


def offsets(shell: Shell, group: str) -> dict[int, int]:
    (described,) = shell.json("groups", "describe", group)
    return {p["partition"]: p["committed"] for p in described["partitions"]}


def test_a_dry_run_names_the_offset_of_each_destination(shell: Shell, unique: str) -> None:
    start_ms = 1_700_000_000_000
    shell.run("topics", "create", unique, "-c", "retention.ms=-1")
    lines = [f'{{"value": "{n}", "timestamp_ms": {start_ms + 1000 * n}}}' for n in range(10)]
    shell.run("produce", unique, "--json", input="\n".join(lines))
    reset = ("groups", "reset-offsets", unique, "--topic", unique)
    shell.run(*reset, "--to-offset", "7", "--execute")
    for destination, expected in (
        (f"--to-datetime {start_ms}", 0),
        (f"--to-datetime {start_ms + 3001}", 4),
        (f"--to-datetime {start_ms + 99999}", 10),
        ("--by-duration 1h", 10),
        ("--shift-by 2", 9),
        ("--shift-by 99", 10),
        ("--to-current", 7),
    ):
        plan = shell.json(*reset, *destination.split())
        assert [row["new"] for row in plan["partitions"]] == [expected], destination
        assert not plan["executed"]


@contextmanager
def consuming(bootstrap: str, group: str, *, protocol: str) -> Iterator[None]:
    """One member of the group, which subscribes to the topic of the same name and has its partitions."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([group])
    try:
        for _ in range(100):
            if consumer.poll(0.2) is not None:
                break
        assert consumer.assignment()
        yield
    finally:
        consumer.close()


def kafka_groups(shell: Shell, *arguments: str) -> str:
    bootstrap = shell.environment["ODRADEK_BOOTSTRAP"]
    try:
        return run_kafka_tool(KAFKA_GROUPS, "--bootstrap-server", bootstrap, *arguments).stdout
    except JavaUnavailableError as failure:
        skip_or_fail(str(failure))
        raise


@pytest.mark.thorough
def test_offsets_are_deleted_after_a_dry_run(shell: Shell, group: str) -> None:
    delete = ("groups", "delete-offsets", group, "--topic")
    plan = shell.json(*delete, group)
    assert "dry run" in shell.error
    assert [(p["partition"], p["current"], p["new"]) for p in plan["partitions"]] == [
        (0, 2, None),
        (1, 2, None),
    ]
    assert (plan["executed"], offsets(shell, group)) == (False, {0: 2, 1: 2})
    shell.run(*delete, f"{group}:0", "--execute")
    assert offsets(shell, group) == {1: 2}
    shell.run(*delete, f"{group}:0", "--execute", code=ExitCode.NOT_FOUND)
    assert f"no committed offset for partition {group}-0; it has offsets for {group}" in shell.error
    shell.run(*delete, "elsewhere", code=ExitCode.NOT_FOUND)
    shell.run("groups", "delete-offsets", "no-such-group", "--topic", group, code=ExitCode.NOT_FOUND)


def test_offsets_that_members_use_are_not_deleted(shell: Shell, group: str) -> None:
    with shell.start("consume", group, "--group", group, "--from-beginning") as member:
        assert member.stdout is not None
        member.stdout.readline()
        for how in ("--dry-run", "--execute"):
            shell.run("groups", "delete-offsets", group, "--topic", group, how, code=ExitCode.REFUSED)
            assert f"has members that subscribe to topic '{group}': odradek-cli" in shell.error
            assert "stop these consumers first" in shell.error
        member.send_signal(signal.SIGINT)
        member.wait(SECONDS_MAX)


@pytest.mark.thorough
def test_a_reset_is_taken_back(shell: Shell, group: str, tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    reset = ("groups", "reset-offsets", group, "--topic", group, "--to-earliest", "--save", str(file))
    shell.run(*reset)
    assert offsets(shell, group) == {0: 2, 1: 2}, "a dry run saves, and changes nothing"
    shell.run(*reset, "--execute")
    assert offsets(shell, group) == {0: 0, 1: 0, 2: 0}
    back = ("groups", "reset-offsets", group, "--from-file", str(file))
    shell.run(*back, "--topic", f"{group}:1", "--execute")
    assert offsets(shell, group) == {0: 0, 1: 2, 2: 0}
    plan = shell.json(*back, "--execute")["partitions"]
    assert [(p["current"], p["new"]) for p in plan] == [(0, 2), (2, 2), (0, None)]
    assert offsets(shell, group) == {0: 2, 1: 2}, "what was not committed is not committed again"
    shell.run(*reset[:-1], str(file), "--execute")
    shell.run(*reset, code=ExitCode.EXISTS)
    assert "name a new one" in shell.error


def test_deleted_offsets_come_back(shell: Shell, group: str, tmp_path: Path) -> None:
    file = str(tmp_path / "before.json")
    shell.run("groups", "delete-offsets", group, "--topic", group, "--save", file, "--execute")
    assert offsets(shell, group) == {}
    shell.run("groups", "reset-offsets", "--from-file", file, "--execute")
    assert offsets(shell, group) == {0: 2, 1: 2}


def test_metadata_and_leader_epoch_come_back(shell: Shell, group: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    one = {"group": group, "topic": group, "partition": 0, "offset": 3, "leader_epoch": 0, "metadata": "mine"}
    beyond = one | {"partition": 1, "offset": 99}
    file.write_text(json.dumps({"format": "odradek-offsets", "version": 1, "offsets": [one, beyond]}))
    shell.run("groups", "reset-offsets", group, "--from-file", str(file), "--execute")
    saved = tmp_path / "saved.json"
    shell.run("groups", "reset-offsets", group, "--all-topics", "--to-latest", "--save", str(saved))
    kept = json.loads(saved.read_text())["offsets"]
    assert kept[0] == one
    assert (kept[1]["offset"], kept[1]["metadata"]) == (4, ""), "the nearest offset that there is"


def test_a_crash_between_saving_and_resetting_leaves_a_usable_file(
    shell: Shell, group: str, tmp_path: Path
) -> None:
    file = tmp_path / "before.json"
    crash = (
        "import os\n"
        "from odradek.cli.groups import group_resets; from odradek.cli import main\n"
        "async def crash(client, plans): os._exit(70)\n"
        "group_resets.apply_resets = crash\n"
        f"main.run(['groups', 'reset-offsets', {group!r}, '--all-topics', '--to-latest',"
        f" '--save', {str(file)!r}, '--execute'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", crash],
        env={**shell.environment, "PYTHONPATH": os.fspath(SOURCE)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 70
    shell.run("groups", "reset-offsets", group, "--topic", group, "--to-latest", "--execute")
    shell.run("groups", "reset-offsets", group, "--from-file", str(file), "--execute")
    assert offsets(shell, group) == {0: 2, 1: 2, 2: 4}


def test_a_file_that_cannot_be_written_leaves_the_offsets(shell: Shell, group: str, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no" / "such" / "folder")
    reset = ("groups", "reset-offsets", group, "--all-topics", "--to-latest", "--execute", "--save", nowhere)
    shell.run(*reset, code=ExitCode.FAILED)
    assert "no offset was changed" in shell.error
    assert offsets(shell, group) == {0: 2, 1: 2}


@pytest.mark.thorough
def test_several_groups_are_reset_and_taken_back(shell: Shell, group: str, tmp_path: Path) -> None:
    other, file = f"{group}-other", str(tmp_path / "both.csv")
    shell.run("groups", "reset-offsets", other, "--topic", f"{group}:2", "--to-offset", "1", "--execute")
    both = ("groups", "reset-offsets", group, other)
    shell.run(*both, "--all-topics", "--to-latest", "--save", file, "--execute")
    assert (offsets(shell, group), offsets(shell, other)) == ({0: 4, 1: 4}, {2: 4})
    shell.run("groups", "reset-offsets", other, "--from-file", file, "--execute")
    assert (offsets(shell, group), offsets(shell, other)) == ({0: 4, 1: 4}, {2: 1})
    shell.run("groups", "reset-offsets", "--from-file", file, "--execute")
    assert offsets(shell, group) == {0: 2, 1: 2}
    shell.run("groups", "reset-offsets", "third", "--from-file", file, code=ExitCode.USAGE)
    assert f"no offsets of group 'third'; it has: {group}, {other}" in shell.error
    assert {p["group"] for p in shell.json("groups", "reset-offsets", "--from-file", file)["partitions"]} == {
        group,
        other,
    }


@pytest.mark.thorough
def test_files_move_to_kafkas_tool_and_back(shell: Shell, group: str, tmp_path: Path) -> None:
    """Ours set back by Kafka's kafka-consumer-groups.sh, and Kafka's exports by ours; one group and two."""
    other = f"{group}.other_and-a.name-that-is-long"
    shell.run("groups", "reset-offsets", other, "--topic", f"{group}:2", "--to-offset", "1", "--execute")
    to_end = ("groups", "reset-offsets", group, other, "--all-topics", "--to-latest")
    one, two = str(tmp_path / "one.csv"), str(tmp_path / "two.csv")
    shell.run("groups", "reset-offsets", group, "--all-topics", "--to-current", "--save", one)
    shell.run(*to_end, "--save", two, "--execute")
    kafka_groups(shell, "--group", group, "--reset-offsets", "--from-file", one, "--execute")
    assert (offsets(shell, group), offsets(shell, other)) == ({0: 2, 1: 2}, {2: 4})
    both = ("--group", group, "--group", other)
    kafka_groups(shell, *both, "--reset-offsets", "--from-file", two, "--execute")
    assert (offsets(shell, group), offsets(shell, other)) == ({0: 2, 1: 2}, {2: 1})
    for name, groups in (("kafka-one.csv", both[:2]), ("kafka-two.csv", both)):
        exported = kafka_groups(
            shell, *groups, "--reset-offsets", "--all-topics", "--to-current", "--export", "--dry-run"
        )
        (tmp_path / name).write_text(exported.strip() + "\n")
    shell.run(*to_end, "--execute")
    shell.run("groups", "reset-offsets", group, "--from-file", str(tmp_path / "kafka-one.csv"), "--execute")
    assert (offsets(shell, group), offsets(shell, other)) == ({0: 2, 1: 2}, {2: 4})
    shell.run("groups", "reset-offsets", "--from-file", str(tmp_path / "kafka-two.csv"), "--execute")
    assert (offsets(shell, group), offsets(shell, other)) == ({0: 2, 1: 2}, {2: 1})
    shell.run("groups", "reset-offsets", "--from-file", str(tmp_path / "kafka-one.csv"), code=ExitCode.USAGE)
    assert "names no group; give the name of one GROUP" in shell.error


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_listed_and_described_in_every_way(shell: Shell, group: str, protocol: str) -> None:
    with consuming(shell.environment["ODRADEK_BOOTSTRAP"], group, protocol=protocol):
        listed = {
            g["group_id"] for g in shell.json("groups", "list", "--type", protocol, "--state", "stable,empty")
        }
        assert group in listed
        other = "consumer" if protocol == "classic" else "classic"
        assert group not in {g["group_id"] for g in shell.json("groups", "list", "--type", other)}
        assert group not in {g["group_id"] for g in shell.json("groups", "list", "--state", "Empty")}
        lines = shell.run("groups", "describe", group, "--state").splitlines()
        assert lines[0].split() == ["GROUP", "STATE", "TYPE", "COORDINATOR", "ASSIGNOR", "MEMBERS"]
        assert lines[1].split()[:3] == [group, "Stable", protocol]
        (state,) = shell.json("groups", "describe", group, "--state")
        assert "partitions" not in state
        assert (state["epoch"] is None) is (protocol == "classic")
        (member,) = state["members"]
        assert member["topics"] == [group]
        assert "SUBSCRIBES TO" in shell.run("groups", "describe", group, "--members", "--verbose")
        assert "SUBSCRIBES TO" not in shell.run("groups", "describe", group, "--members")
        assert "LEADER EPOCH" in shell.run("groups", "describe", group, "--verbose")
    assert f"{group}  Empty" in shell.run("groups", "describe", "--all-groups")


def test_a_pattern_of_topics_is_checked(shell: Shell) -> None:
    assert shell.run("groups", "check-pattern", "orders-.*") == "valid    orders-.*\n"
    shell.run("groups", "check-pattern", "orders-(", code=ExitCode.REFUSED)
    assert "not a valid regular expression: missing ): orders-(" in shell.error


@pytest.mark.thorough
def test_positions_of_a_mirror_are_taken_as_they_are_given(shell: Shell, group: str, tmp_path: Path) -> None:
    """They are offsets of the source: the four records of the copy are no bound."""
    mirror, saved = f"odradek-mirror.{group}.a", str(tmp_path / "before.json")
    reset = ("groups", "reset-offsets", mirror, "--topic", f"{group}:0", "--execute")
    shell.run(*reset, "--to-offset", "1000")
    assert offsets(shell, mirror) == {0: 1000}
    shell.run(*reset, "--shift-by", "-10", "--save", saved)
    assert offsets(shell, mirror) == {0: 990}
    shell.run("groups", "reset-offsets", mirror, "--from-file", saved, "--execute")
    assert offsets(shell, mirror) == {0: 1000}
    shell.run(*reset, "--to-earliest", code=ExitCode.REFUSED)
    assert "offsets of its source" in shell.error and offsets(shell, mirror) == {0: 1000}
