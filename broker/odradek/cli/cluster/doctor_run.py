"""Runs `odradek doctor`: asks for the facts, and shows what the rules find in them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from odradek.cli.cluster.doctor import CHECKS
from odradek.cli.cluster.findings import describe_findings
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import bad, count, good, in_color, show_document, warning
from odradek.client.addresses import parse_addresses
from odradek.client.admin.diagnosis import Diagnosis, Facts, Severity, diagnose, find_passed
from odradek.client.admin.diagnosis_probes import find_facts
from odradek.client.client import Client
from odradek.client.properties import SECURITY_PROTOCOL

_MARKS = {Severity.PROBLEM: bad("!!"), Severity.WARNING: warning("!"), Severity.NOTE: "-"}
_EXIT_CODES = {Severity.PROBLEM: ExitCode.UNHEALTHY, Severity.WARNING: ExitCode.DEGRADED}


def doctor(session: CommandSession, *, only: Sequence[str]) -> int:
    facts = session.run(lambda client: _find(session, client))
    everything, asked = diagnose(facts), only or CHECKS
    found = [one for one in everything if one.check in asked]
    passed = [name for name in find_passed(facts, everything) if name in asked]
    if not show_document(session.output, _document(facts, found, passed)):
        _print(facts, found, passed)
    worst = max((one.severity for one in found), default=Severity.NOTE)
    return _EXIT_CODES.get(worst, ExitCode.OK)


async def _find(session: CommandSession, client: Client) -> Facts:
    return await find_facts(
        client,
        bootstrap=parse_addresses(session.settings.bootstrap.value),
        security_protocol=session.settings.values[SECURITY_PROTOCOL].value.upper(),
        now_ms=lambda: round(time.time() * 1000),
    )


def _print(facts: Facts, found: Sequence[Diagnosis], passed: Sequence[str]) -> None:
    brokers = count(len(facts.addresses), "live broker")
    print(f"cluster {facts.health.cluster_id}: {brokers}, {count(len(facts.topics), 'topic')}")
    for one in found:
        print(f"{in_color(_MARKS[one.severity])} {one.check}: {one.words}")
        if one.advice:
            print(f"   {one.advice}")
    if passed:
        print(f"{in_color(good('ok'))} {', '.join(passed)}")


def _document(facts: Facts, found: Sequence[Diagnosis], passed: Sequence[str]) -> dict[str, object]:
    return {
        "cluster_id": facts.health.cluster_id,
        "findings": describe_findings(found),
        "passed": passed,
    }
