"""`odradek queues` and `consume --share-group` with a running broker: what is left, what comes next, and moves."""

from __future__ import annotations

import json

import pytest

from odradek import sync
from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.support.polling import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def queue(shell: Shell, unique: str) -> str:
    """A queue of the same name as its topic, whose first two of five records are done."""
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, input="a\nb\nc\nd\ne\n")
    shell.run("configs", "set", "group", unique, "share.auto.offset.reset=earliest")
    assert shell.run("consume", unique, "--share-group", unique, "-n", "2") == "a\nb\n"
    return unique


def test_a_queue_shows_what_is_left_and_what_comes_next(shell: Shell, queue: str) -> None:
    (described,) = shell.json("queues", "describe", queue)
    assert (described["state"], described["lag"], described["members"]) == ("Empty", 3, [])
    # As in Apache Kafka, the start that is stored moves with the next change behind it.
    (partition,) = described["partitions"]
    assert (partition["lag"], partition["start"] <= 2) == (3, True)
    assert described["settings"]["share.auto.offset.reset"] == "earliest"
    (listed,) = [one for one in shell.json("queues", "list") if one["queue"] == queue]
    assert listed == {"queue": queue, "state": "Empty", "members": 0, "topics": [queue], "lag": 3}
    waiting = ["a", "b", "c", "d", "e"][partition["start"] :]
    assert [one["value"] for one in shell.json("queues", "peek", queue)] == waiting
    assert [one["value"] for one in shell.json("queues", "peek", queue, "-n", "2")] == waiting[:2]
    # A look takes nothing.
    assert shell.json("queues", "describe", queue)[0]["lag"] == 3
    assert "share.delivery.count.limit" in shell.run("queues", "describe", queue, "--verbose")
    assert "it has no members" in shell.run("queues", "describe", queue, "--members")


def test_groups_show_a_queue_as_one(shell: Shell, queue: str) -> None:
    assert f"`odradek queues describe {queue}`" in shell.run("groups", "describe", queue)
    (listed,) = [one for one in shell.json("groups", "list", "--type", "share") if one["group_id"] == queue]
    assert listed["type"] == "share"


def test_offsets_of_a_queue_are_not_reset_as_those_of_a_group(shell: Shell, queue: str) -> None:
    shell.run(
        "groups", "reset-offsets", queue, "-t", queue, "--to-earliest", "--execute", code=ExitCode.REFUSED
    )
    assert "`odradek queues reset` moves it" in shell.error


def test_a_queue_and_a_group_name_each_other(shell: Shell, queue: str) -> None:
    group = f"{queue}.group"
    shell.run("consume", queue, "--group", group, "--from-beginning", "--exit-at-end")
    shell.run("consume", queue, "--group", queue, "--idle-exit", "5", code=ExitCode.REFUSED)
    assert f"group '{queue}' is a queue (a share group): " in shell.error
    assert f"`odradek consume TOPIC --share-group {queue}`" in shell.error
    shell.run("consume", queue, "--share-group", group, "--idle-exit", "5", code=ExitCode.NOT_FOUND)
    assert f"group '{group}' is a group of consumers and no queue: " in shell.error
    assert f"`odradek consume TOPIC --group {group}`" in shell.error


def test_what_was_printed_is_done_and_the_rest_is_not(shell: Shell, queue: str) -> None:
    assert shell.run("consume", queue, "--share-group", queue, "--idle-exit", "3") == "c\nd\ne\n"
    assert shell.json("queues", "describe", queue)[0]["lag"] == 0
    assert shell.json("queues", "peek", queue) == []


def test_a_queue_moves_only_when_told_to(shell: Shell, queue: str) -> None:
    reset = ("queues", "reset", queue, "--topic", queue, "--to-earliest")
    (move,) = shell.json(*reset)
    assert (move["topic"], move["new_start"]) == (queue, 0)
    assert shell.json("queues", "describe", queue)[0]["lag"] == 3
    shell.run(*reset, "--execute")
    assert shell.json("queues", "describe", queue)[0]["lag"] == 5
    shell.run("queues", "reset", queue, "--all-topics", "--to-latest", "--execute")
    assert shell.json("queues", "describe", queue)[0]["lag"] == 0


def test_a_queue_is_forgotten_and_deleted_only_when_told_to(shell: Shell, queue: str) -> None:
    shell.run("queues", "forget", queue, "--topic", queue)
    assert shell.json("queues", "describe", queue)[0]["partitions"] != []
    shell.run("queues", "forget", queue, "--topic", queue, "--execute")
    assert shell.json("queues", "describe", queue)[0]["partitions"] == []
    shell.run("queues", "delete", queue)
    shell.run("queues", "describe", queue)
    shell.run("queues", "delete", queue, "--execute")
    shell.run("queues", "describe", queue, code=ExitCode.NOT_FOUND)
    assert f"there is no queue '{queue}'; `odradek queues list`" in shell.error


def test_what_was_given_up_is_shown_and_given_back_once(shell: Shell, queue: str) -> None:
    letters = f"dlq.{queue}"
    shell.run("topics", "create", letters, "-p", "1", "-c", "errors.deadletterqueue.group.enable=true")
    shell.run("configs", "set", "group", queue, f"errors.deadletterqueue.topic.name={letters}")
    shell.run("produce", queue, "--json", input='{"key": "k", "value": "poison", "headers": {"trace": "1"}}')
    bootstrap = shell.environment["ODRADEK_BOOTSTRAP"]
    with (
        sync.Client(bootstrap) as client,
        sync.ShareConsumer(client, queue, [queue], is_explicit=True) as worker,
    ):
        taken = 0
        while taken < 4:
            for record in worker.poll():
                taken += 1
                worker.acknowledge(record, "reject" if record.value == b"poison" else "accept")
        worker.commit()
    (letter,) = wait_until("the letter is written", lambda: shell.json("queues", "dead-letters", queue))
    assert (letter["topic"], letter["offset"], letter["delivery_count"]) == (queue, 5, 1)
    assert letter["why"] == "Offset rejected by client."
    (given,) = shell.json("queues", "give-back", queue)
    assert given["new_offset"] == 6
    # The record itself came back, with its key and its header, and the letter had no copy of it.
    assert (letter["key"], letter["value"]) == (None, None)
    (again,) = shell.json_lines("consume", queue, "--share-group", queue, "-n", "1")
    assert (again["key"], again["value"]) == ("k", "poison")
    assert shell.json("queues", "dead-letters", queue) == shell.json("queues", "give-back", queue) == []


def test_a_queue_that_keeps_no_letters_says_how(shell: Shell, queue: str) -> None:
    for verb in ("dead-letters", "give-back"):
        shell.run("queues", verb, queue, code=ExitCode.REFUSED)
        assert f"queue '{queue}' has no dead-letter topic" in shell.error


def test_a_start_for_a_queue_that_is_not_there_makes_it(shell: Shell, queue: str) -> None:
    reset = ("queues", "reset", f"{queue}.new", "--topic", queue, "--to-earliest")
    shell.run(*reset)
    assert f"there is no queue '{queue}.new' yet: a start for it makes it" in shell.error
    shell.run(*reset, "--execute")
    shell.run(*reset)
    assert "yet" not in shell.error


def test_a_letter_that_cannot_be_written_is_asked_for_again(shell: Shell, queue: str) -> None:
    """Those before it are not written twice, and one that nothing has any more is passed over."""
    letters, gone = f"dlq.{queue}", f"{queue}-gone"
    shell.run("topics", "create", letters, "-p", "1")
    shell.run("configs", "set", "group", queue, f"errors.deadletterqueue.topic.name={letters}")

    def letter(topic: str, offset: int) -> str:
        names = {
            "topic": topic,
            "partition": "0",
            "offset": str(offset),
            "group": queue,
            "delivery.count": "5",
        }
        return json.dumps(
            {"value": None, "headers": {f"__dlq.errors.{name}": text for name, text in names.items()}}
        )

    lines = [letter(queue, 1), letter(queue, 1_000), letter(gone, 0), letter(queue, 2)]
    shell.run("produce", letters, "--json", input="\n".join(lines))
    shell.run("queues", "give-back", queue, code=ExitCode.REFUSED)
    assert f"'{gone}'" in shell.error and "its letter has no copy of it" in shell.error
    left = shell.json("queues", "dead-letters", queue)
    assert [(one["topic"], one["offset"]) for one in left] == [(gone, 0), (queue, 2)]
    shell.run("topics", "create", gone, "-p", "1")
    shell.run("produce", gone, input="back\n")
    given = shell.json("queues", "give-back", queue)
    assert [one["new_offset"] for one in given] == [1, 6]
    assert shell.json("queues", "dead-letters", queue) == []


def test_wrong_use_is_explained(shell: Shell, queue: str, unique: str) -> None:
    for arguments, message in (
        (("queues", "reset", queue, "--to-earliest"), "give --topic (may be repeated), or --all-topics"),
        (("queues", "reset", queue, "--all-topics"), "give one of --to-earliest, --to-latest, --to-datetime"),
        (("queues", "forget", queue), "give --topic"),
        (("consume", queue, "--share-group", queue, "--from-beginning"), "share.auto.offset.reset"),
        (("consume", queue, "--share-group", queue, "--exit-at-end"), "--idle-exit ends it"),
    ):
        shell.run(*arguments, code=ExitCode.USAGE)
        assert message in shell.error
    # A consumer group is no queue, and is not deleted as one.
    shell.run("groups", "reset-offsets", f"{unique}-plain", "--topic", queue, "--to-earliest", "--execute")
    shell.run("queues", "delete", f"{unique}-plain", "--execute", code=ExitCode.NOT_FOUND)
    assert "there is no queue" in shell.error
    shell.run("groups", "describe", f"{unique}-plain")
