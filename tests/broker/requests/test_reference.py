"""docs/reference/protocol.md: each API of the protocol is on it, once, and it is what the tables say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from odradek.broker.requests.not_served import ABSENCES, EFFECTS
from odradek.broker.requests.reference import page
from odradek.broker.requests.table import CONTROLLER_HANDLERS, HANDLERS, TELEMETRY_HANDLERS
from odradek.wire.protocol.api import ApiKey

ROOT = Path(__file__).parents[3]


@pytest.mark.generated
def test_the_page_is_what_the_tables_say() -> None:
    there = (ROOT / "docs/reference/protocol.md").read_text()
    assert there == page(), "docs/reference/protocol.md is old: run `make reference` and commit it"


def test_each_api_is_served_or_its_absence_is_explained() -> None:
    served = set(HANDLERS) | set(TELEMETRY_HANDLERS) | set(CONTROLLER_HANDLERS)
    assert served.isdisjoint(EFFECTS)
    assert served | set(EFFECTS) == set(ApiKey)
    assert len(EFFECTS) == sum(len(absence.apis) for absence in ABSENCES), "an API is in two rows"


def test_every_api_that_kafka_lists_for_clients_has_its_line() -> None:
    golden = json.loads((ROOT / "tests/compat/golden/versions.json").read_text())
    listed_by_kafka = {int(api) for api in golden["ranges by version 4"]}
    text = page()
    for api in listed_by_kafka:
        assert f"| {api} |" in text or f"({api})" in text


def test_every_proposal_that_the_code_names_is_on_the_page_of_proposals() -> None:
    sources = (ROOT / "broker/odradek").rglob("*.py")
    named = {int(number) for path in sources for number in re.findall(r"KIP-(\d+)", path.read_text())}
    rows = re.findall(r"^\| ([\d, ]+) \|", (ROOT / "docs/compatibility.md").read_text(), re.MULTILINE)
    listed = {int(number) for row in rows for number in row.split(",")}
    assert named, "no source names a KIP: the search is wrong"
    assert named <= listed, f"docs/compatibility.md lacks KIP {sorted(named - listed)}"
