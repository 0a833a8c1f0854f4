"""`odradek queues locks` with a broker that has a port of --admin, and without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from odradek import sync
from odradek.cli.exit_codes import ExitCode
from odradek.cli.queues.lock_details import list_missing
from odradek.client.addresses import Address
from odradek.client.admin import http_port
from odradek.client.admin.http_port import parse_url
from odradek.client.admin.queue_locks import BrokerLocks
from odradek.client.metadata import BrokerInfo, ClusterInfo
from tests.cli.conftest import Shell
from tests.support.broker_process import Broker, free_port
from tests.support.polling import wait_until

LOCK_MS = 30_000


class Queue:
    """A broker with its port of --admin, and a queue `resize` of the topic `images`."""

    def __init__(self, broker: Broker, admin: str) -> None:
        self.broker = broker
        self.admin = admin
        self.shell = Shell(broker.bootstrap)

    def locks(self, *arguments: str) -> Any:
        return self.shell.json("queues", "locks", "resize", "--admin", self.admin, *arguments)


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    admin = f"127.0.0.1:{free_port()}"
    broker = Broker(tmp_path_factory.mktemp("locks"), arguments=["--admin", admin])
    broker.start()
    try:
        found = Queue(broker, admin)
        found.shell.run("topics", "create", "images", "-p", "1")
        found.shell.run("configs", "set", "group", "resize", "share.auto.offset.reset=earliest")
        found.shell.run("produce", "images", input="first\n")
        found.shell.run("consume", "images", "--share-group", "resize", "-n", "1")
        yield found
    finally:
        broker.close()


def hold(member: sync.ShareConsumer) -> None:
    """Let a member take what waits."""
    wait_until("it has records", member.poll)


@pytest.mark.integration
def test_each_record_is_shown_with_the_member_that_has_it(queue: Queue) -> None:
    shell = queue.shell
    with ExitStack() as stack:
        members = []
        for name, record in (("anna", "a\nb\nc\n"), ("ben", "d\n")):
            client = stack.enter_context(sync.Client(queue.broker.bootstrap, client_id=name))
            member = sync.ShareConsumer(client, "resize", ["images"], is_explicit=True)
            members.append(stack.enter_context(member))
            shell.run("produce", "images", input=record)
            hold(members[-1])
        answer = queue.locks()
        assert (answer["queue"], answer["truncated"], answer["missing"]) == ("resize", False, [])
        places = [
            (one["topic"], one["partition"], one["first"], one["last"], one["records"], one["client_id"])
            for one in answer["locks"]
        ]
        assert places == [("images", 0, 1, 3, 3, "anna"), ("images", 0, 4, 4, 1, "ben")]
        assert [one["member_id"] for one in answer["locks"]] == [one.member_id for one in members]
        for one in answer["locks"]:
            assert one["client_host"].endswith("127.0.0.1")
            assert one["delivery_count"] == 1
            assert 0 < one["time_left_ms"] <= LOCK_MS
        (partition,) = answer["partitions"]
        assert (partition["topic"], partition["partition"]) == ("images", 0)
        assert (partition["acquired"], partition["available"]) == (4, 0)
        printed = shell.run("queues", "locks", "resize", "--admin", queue.admin, "--verbose")
        assert printed.startswith("resize  4 records locked by 2 members  0 records to be delivered again\n")
        assert "  1-3  " in printed and members[1].member_id in printed and "IN FLIGHT" in printed
        # One document on each line, until Ctrl-C.
        with shell.start(
            "queues", "locks", "resize", "--admin", queue.admin, "--watch", "--output", "json"
        ) as watching:
            assert watching.stdout is not None
            assert b'"client_id": "anna"' in watching.stdout.readline()
    # The members are gone, and all of it comes again.
    assert wait_until("no lock is left", lambda: not queue.locks()["locks"])
    assert "no record is locked\n" in shell.run("queues", "locks", "resize", "--admin", queue.admin)


@pytest.mark.integration
def test_a_broker_that_does_not_answer_is_named(queue: Queue) -> None:
    shell, port = queue.shell, free_port()
    answer = shell.json("queues", "locks", "resize", "--admin", f"127.0.0.1:{port}", code=ExitCode.CONNECTION)
    assert [(one["broker"], one["admin"]) for one in answer["missing"]] == [
        (None, f"http://127.0.0.1:{port}"),
        (1, None),
    ]
    assert f"http://127.0.0.1:{port} cannot be reached" in shell.error
    assert "broker 1: no port that was asked is its own; --admin HOST:PORT names it" in shell.error
    printed = shell.run("queues", "locks", "resize", "--admin", f"[::1]:{port}", code=ExitCode.CONNECTION)
    assert "no record is locked at the brokers that answered" in printed
    # Its own port among others is enough.
    shell.run("queues", "locks", "resize", "--admin", queue.admin, "--admin", f"http://{queue.admin}")
    # A port that speaks another protocol is no port of --admin.
    shell.run("queues", "locks", "resize", "--admin", queue.broker.bootstrap, code=ExitCode.CONNECTION)
    shell.run("queues", "locks", "resize", "--admin", f"https://{queue.admin}", code=ExitCode.CONNECTION)
    assert "where the port has no TLS, name it as --admin http://" in shell.error


@pytest.mark.integration
def test_the_usual_port_of_each_brokers_host_is_asked(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    assert http_port.ADMIN_PORT == 9644
    monkeypatch.setattr(http_port, "ADMIN_PORT", int(queue.admin.rpartition(":")[2]))
    assert queue.shell.json("queues", "locks", "resize")["missing"] == []
    monkeypatch.setattr(http_port, "ADMIN_PORT", port := free_port())
    (missing,) = queue.shell.json("queues", "locks", "resize", code=ExitCode.CONNECTION)["missing"]
    assert (missing["broker"], missing["admin"]) == (1, f"http://127.0.0.1:{port}")
    assert f"broker 1: http://127.0.0.1:{port} cannot be reached" in queue.shell.error


@pytest.mark.integration
def test_wrong_use_is_explained(queue: Queue) -> None:
    shell = queue.shell
    shell.run("queues", "locks", "none-such", "--admin", queue.admin, code=ExitCode.NOT_FOUND)
    assert "there is no queue 'none-such'" in shell.error
    shell.run("queues", "locks", "resize", "--admin", "ftp://x", code=ExitCode.USAGE)
    assert "is no address of a port of --admin" in shell.error


def test_brokers_of_one_host_are_not_taken_for_each_other() -> None:
    address, url = Address("127.0.0.1", 9092), "http://127.0.0.1:9644"
    cluster = ClusterInfo("c", 1, {id: BrokerInfo(id, address, None) for id in (1, 2)})
    answers = {1: BrokerLocks("c", 1, False, (), ())}
    (missing,) = list_missing(cluster, answers, {}, {1: url, 2: url})
    assert (missing.broker, missing.url) == (2, url)
    assert str(missing) == (
        f"broker 2: no port that was asked is its own, {url} is of another broker; --admin HOST:PORT names it"
    )


@pytest.mark.parametrize(
    ("text", "has_tls", "url"),
    [
        ("broker-1", False, "http://broker-1:9644"),
        ("broker-1", True, "https://broker-1:9644"),
        ("broker-1:9700", True, "https://broker-1:9700"),
        ("http://broker-1", True, "http://broker-1:9644"),
        ("https://10.0.0.7:1", False, "https://10.0.0.7:1"),
        ("[::1]", False, "http://[::1]:9644"),
        ("[::1]:9700", False, "http://[::1]:9700"),
    ],
)
def test_an_address_is_read(text: str, has_tls: bool, url: str) -> None:
    assert parse_url(text, has_tls=has_tls) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://",
        ":9644",
        "a:b",
        "a:70000",
        "a/metrics",
        "u@a",
        "u:p@a",
        "::1",
        "[x]",
        "ftp://a",
        "a?b",
        "a,b",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like broker-1:9644"):
        parse_url(text, has_tls=False)
