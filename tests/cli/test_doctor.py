"""`odradek doctor` on a real broker: a healthy one, and faults that are planted in its topics and groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek.cli.cluster.doctor import CHECKS
from odradek.cli.exit_codes import ExitCode
from odradek.client.admin.diagnosis import RULES
from odradek.foundation.security_errors import ClusterAuthorizationFailed
from tests.cli.conftest import Shell
from tests.support.broker_process import Broker
from tests.support.local_process import running

pytestmark = pytest.mark.integration


def findings(shell: Shell, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell.json("doctor", *arguments, code=code)["findings"]
    return found


def test_a_new_broker_has_nothing_and_each_planted_fault_is_named(tmp_path: Path) -> None:
    with running(Broker(tmp_path)) as broker:
        shell = Shell(broker.bootstrap)
        assert findings(shell) == []
        shown = shell.run("doctor")
        assert "ok health, addresses, copies, racks, settings, groups" in shown

        shell.run("topics", "create", "unclean", "--config", "unclean.leader.election.enable=true")
        shell.run("topics", "create", "wishful", "--config", "min.insync.replicas=2")
        shell.run("produce", "wishful", input="a\nb\nc\n")
        shell.run("groups", "reset-offsets", "behind", "--topic", "wishful", "--to-offset", "1", "--execute")
        shell.run("topics", "trim", "wishful", "--to-offset", "3", "--execute")
        found = findings(shell, code=ExitCode.DEGRADED)
        assert [(one["check"], one["severity"]) for one in found] == [
            ("copies", "warning"),
            ("settings", "warning"),
            ("groups", "warning"),
        ]
        texts = " / ".join(one["message"] for one in found)
        assert "asks for more copies than there are: wishful" in texts
        assert "acknowledged records may be lost: unclean" in texts
        assert "group behind has not read 2 records that retention has deleted, in wishful-0" in texts
        only = findings(shell, "--only", "copies", code=ExitCode.DEGRADED)
        assert [one["check"] for one in only] == ["copies"]


def test_what_is_denied_is_named_and_not_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def denied(*_: object, **__: object) -> None:
        raise ClusterAuthorizationFailed("not for this user")

    with running(Broker(tmp_path)) as broker:
        monkeypatch.setattr("odradek.client.admin.configs.ConfigAdmin.describe", denied)
        shell = Shell(broker.bootstrap)
        shown = shell.run("doctor")
        assert "- unasked: the settings of brokers could not be looked at: " in shown
        assert "not for this user" in shown
        assert "ok health, addresses, copies, racks, groups, transactions, clocks, certificates" in shown
        assert shell.json("doctor", "--only", "settings", "--only", "copies")["passed"] == ["copies"]


def test_a_mistyped_check_is_named() -> None:
    shell = Shell("127.0.0.1:1")
    shell.run("doctor", "--only", "copes", code=ExitCode.USAGE)
    assert "'copes' is not one of 'health', 'addresses', 'copies'" in shell.error


def test_the_checks_that_can_be_chosen_are_all_there_are() -> None:
    assert tuple(RULES) == CHECKS


def test_without_a_broker_there_is_no_connection() -> None:
    Shell("127.0.0.1:1").run("doctor", code=ExitCode.CONNECTION)
