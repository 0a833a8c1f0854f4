"""Names that are mistyped, and requests that are denied: the error says what helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import Result

import odradek.testing
from odradek.cli.exit_codes import ExitCode
from odradek.testing import TestBroker
from tests.cli.conftest import Shell

Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def testing_broker() -> Iterator[TestBroker]:
    with odradek.testing.broker() as broker:
        broker.create_topic("orders")
        yield broker


@pytest.mark.integration
@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "describe", "ordrs"),
        ("topics", "alter", "ordrs", "--partitions", "3"),
        ("topics", "alter", "ordrs", "--config", "retention.ms=1000"),
        ("topics", "alter", "ordrs", "--replication-factor", "1"),
        ("topics", "delete", "ordrs"),
        ("topics", "delete", "ordrs", "--execute"),
        ("topics", "offsets", "ordrs"),
        ("topics", "trim", "ordrs", "--to-latest"),
        ("topics", "elect-leaders", "ordrs"),
        ("configs", "describe", "topic", "ordrs"),
        ("configs", "set", "topic", "ordrs", "retention.ms=1000"),
        ("configs", "unset", "topic", "ordrs", "retention.ms"),
        ("groups", "reset-offsets", "g", "--topic", "ordrs", "--to-latest"),
        ("brokers", "disk", "--topic", "ordrs"),
        ("reassign", "plan", "ordrs", "--replication-factor", "1"),
        ("transactions", "describe-producers", "ordrs"),
        ("transactions", "find-hanging", "ordrs"),
        ("consume", "ordrs", "--from-beginning"),
        ("consume", "ordrs", "--from-beginning", "--group", "g"),
        ("perf", "consume", "ordrs"),
        ("produce", "ordrs", "--no-create"),
        ("produce", "ordrs"),
        ("perf", "produce", "ordrs"),
    ],
    ids=" ".join,
)
def test_a_mistyped_topic_gets_the_nearest_name(
    testing_broker: TestBroker, arguments: tuple[str, ...]
) -> None:
    shell = Shell(testing_broker.bootstrap)
    shell.run(*arguments, "--timeout", "10", code=ExitCode.NOT_FOUND)
    assert "there is no topic 'ordrs'" in shell.error
    assert "did you mean 'orders'?" in shell.error
    assert shell.error.count("ordrs'") <= 2, "the name is said once, and once in the remedy"
    assert [topic["name"] for topic in shell.json("topics", "list")] == ["orders"], "nothing was made"


@pytest.mark.integration
def test_a_topic_without_a_near_name_is_made_by_writing(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    try:
        shell.run("produce", "payments", input="a\n")
        shell.run("produce", "ordrs", "--create", input="a\n")
        assert "the broker has created it" in shell.error
        # From now on it is a name like any other.
        shell.run("produce", "ordrs", input="b\n")
    finally:
        shell.run("topics", "delete", "payments", "ordrs", "--if-exists", "--execute")


@pytest.mark.integration
def test_a_mistyped_group_gets_the_nearest_name(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    shell.run("groups", "reset-offsets", "billing", "--topic", "orders", "--to-latest", "--execute")
    for arguments in (("describe", "biling"), ("delete", "biling"), ("delete", "biling", "--execute")):
        shell.run("groups", *arguments, code=ExitCode.NOT_FOUND)
        assert "there is no group 'biling'; did you mean 'billing'?" in shell.error


@pytest.mark.integration
def test_a_queue_is_near_to_queues_alone(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    shell.run("groups", "reset-offsets", "resize", "--topic", "orders", "--to-latest", "--execute")
    shell.run("consume", "orders", "--share-group", "shrink", "--idle-exit", "1")
    for verb in ("describe", "peek", "delete", "dead-letters", "give-back"):
        shell.run("queues", verb, "resiz", code=ExitCode.NOT_FOUND)
        assert "there is no queue 'resiz'; `odradek queues list` lists all queues" in shell.error
        shell.run("queues", verb, "shrnk", code=ExitCode.NOT_FOUND)
        assert "there is no queue 'shrnk'; did you mean 'shrink'?" in shell.error
        shell.run("queues", verb, "resize", code=ExitCode.NOT_FOUND)
        assert "there is no queue 'resize': that is a classic group" in shell.error
    for arguments in (("forget", "shrnk"), ("forget", "shrnk", "--execute")):
        shell.run("queues", *arguments, "--topic", "orders", code=ExitCode.NOT_FOUND)
        assert "there is no queue 'shrnk'; did you mean 'shrink'?" in shell.error
    shell.run("queues", "reset", "resize", "--topic", "orders", "--to-latest", code=ExitCode.NOT_FOUND)
    assert "`odradek groups describe resize` shows it" in shell.error


@pytest.mark.integration
@pytest.mark.parametrize("verb", ["topics", "groups", "queues"])
def test_a_dry_run_that_finds_nothing_asks_for_no_execute(testing_broker: TestBroker, verb: str) -> None:
    shell = Shell(testing_broker.bootstrap)
    shell.run(verb, "delete", "zzzzzz", code=ExitCode.NOT_FOUND)
    assert shell.error.endswith("dry run: nothing was deleted\n")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("configs", "unset", "topic", "orders", "retention.ms", "retention.mss"),
            "topic 'orders' has no setting retention.mss; did you mean retention.ms?",
        ),
        (
            ("configs", "unset", "topic", "orders", "zzz"),
            "topic 'orders' has no setting zzz; `odradek configs describe topic orders --all` lists all",
        ),
        (("configs", "unset", "broker", "default", "log.retention.mss"), "did you mean log.retention.ms?"),
        (("configs", "unset", "group", "any", "share.isolation.levl"), "did you mean share.isolation.level?"),
        (("configs", "unset", "client-metrics", "any", "mach"), "did you mean match?"),
        (("topics", "alter", "orders", "--unset", "retention.mss"), "did you mean retention.ms?"),
    ],
)
def test_a_setting_that_is_none_is_not_unset(
    testing_broker: TestBroker, arguments: tuple[str, ...], words: str
) -> None:
    shell = Shell(testing_broker.bootstrap)
    assert shell.run(*arguments, code=ExitCode.REFUSED) == ""
    assert words in shell.error


@pytest.mark.integration
def test_what_is_not_set_may_be_unset(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    for arguments in (
        ("topic", "orders", "retention.ms"),
        ("broker", "default", "log.retention.ms"),
        ("broker", "default", "listener.name.internal.ssl.keystore.location"),
    ):
        shell.run("configs", "unset", *arguments)


@pytest.mark.integration
def test_a_failure_of_the_default_of_brokers_names_it(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    shell.run("configs", "set", "broker", "default", "log.retention.mss=1", code=ExitCode.REFUSED)
    assert "odradek: broker default: Unknown broker config name" in shell.error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("set", "producer_byterate=5"),
            "there is no quota 'producer_byterate'; did you mean 'producer_byte_rate'?",
        ),
        (
            ("remove", "consumer_byte_rat"),
            "there is no quota 'consumer_byte_rat'; did you mean 'consumer_byte_rate'?",
        ),
        (("set", "x=5"), "there is no quota 'x'; the quotas are producer_byte_rate, "),
    ],
)
def test_a_mistyped_quota_gets_the_nearest_name(
    invoke: Invoke, arguments: tuple[str, ...], words: str
) -> None:
    result = invoke("quotas", *arguments, "--user", "alice")
    assert result.exit_code == ExitCode.USAGE
    assert words in result.output


@pytest.mark.integration
def test_what_is_there_already_is_said_once(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    shell.run("topics", "create", "orders", code=ExitCode.EXISTS)
    assert shell.error == "odradek: Topic 'orders' already exists.\n"


@pytest.mark.integration
def test_a_record_that_is_too_large_is_called_a_record(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    shell.run("produce", "orders", input=b"x" * 5_000_000, code=ExitCode.REFUSED)
    assert "a record of 5000" in shell.error
    assert "is too large for topic 'orders'" in shell.error
    assert "odradek topics alter orders --config max.message.bytes=5000" in shell.error
    assert "smaller batches" not in shell.error


@pytest.mark.integration
def test_one_answer_for_many_partitions_is_one_line(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    testing_broker.create_topic("wide", partitions=3)
    testing_broker.fail("CreateAcls", error="CLUSTER_AUTHORIZATION_FAILED")
    try:
        shell.run(
            *("acls", "add", "--allow-principal", "User:a", "--producer", "--topic", "wide"),
            code=ExitCode.REFUSED,
        )
        assert len(shell.error.splitlines()) == 1, shell.error
    finally:
        shell.run("topics", "delete", "wide", "--execute")


@pytest.mark.integration
def test_a_denied_request_says_who_lacks_which_right_on_what() -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    with odradek.testing.broker(settings=settings) as broker:
        shell = Shell(broker.bootstrap)
        for arguments, right, option in (
            (("topics", "create", "orders"), "create", "--topic orders"),
            (("produce", "orders"), "write", "--topic orders"),
            (("consume", "orders", "--from-beginning"), "read", "--topic orders"),
            (("consume", "orders", "--group", "g"), "read", "--topic orders"),
            (("groups", "describe", "billing"), "describe", "--group billing"),
            (("quotas", "list"), "describe-configs", "--cluster"),
            (("acls", "list"), "describe", "--cluster"),
            (("topics", "describe", "orders"), "describe", "--topic orders"),
        ):
            shell.run(*arguments, input="a\n", code=ExitCode.REFUSED)
            assert f"User:ANONYMOUS lacks the right {right} on " in shell.error
            assert f"--allow-principal User:ANONYMOUS --operation {right} {option}`" in shell.error


@pytest.mark.integration
def test_lists_that_are_empty_say_so() -> None:
    with odradek.testing.broker() as broker:
        shell = Shell(broker.bootstrap)
        for arguments, words in (
            (("topics", "list"), "there is no topic\n"),
            (("topics", "describe"), "there is no topic\n"),
            (("topics", "offsets"), "there is no topic\n"),
            (("groups", "list"), "there is no group\n"),
            (("groups", "describe"), "there is no group\n"),
            (("groups", "describe", "--state"), "there is no group\n"),
            (("transactions", "list"), "there is no transactional id\n"),
            (("transactions", "find-hanging"), "no transaction hangs\n"),
            (("quotas", "list"), "no quota is set\n"),
            (("users", "list"), "no user has a password of SCRAM\n"),
            (("reassign", "list"), "no partition is moving\n"),
            (
                ("configs", "describe", "broker", "default"),
                "nothing is set for broker default; --all shows the defaults\n",
            ),
        ):
            assert shell.run(*arguments) == words, arguments
            assert shell.json(*arguments) == []
