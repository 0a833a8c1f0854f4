"""What a Java 4.4.0 client finds in our ApiVersions, beside what Kafka 4.4.0's own messages declare.

Kafka's side is read from the jar of its clients: each message names its versions and its listeners. Ours is what
Kafka's own command prints. They may differ in a named list only, which docs/compatibility.md has too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest

from odradek.broker.requests.not_served import ABSENCES
from odradek.broker.requests.table import TELEMETRY_HANDLERS
from odradek.wire.protocol.api import ApiKey
from tests.support.broker_process import CHECKOUT
from tests.support.java import KAFKA_NEWEST_VERSION, JavaUnavailableError, kafka_classpath, run_kafka_tool
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

ABSENT: Final = "-"
# What Kafka 4.4.0 has for clients and we do not: its versions, and why. `not_served` has those of 4.1.
SINCE_4_1: Final = {
    "StreamsGroupTopologyDescriptionUpdate": "descriptions of topologies, for plug-ins of Kafka's (KIP-1331)",
    "UnregisterController": "Administration of KRaft",
}
NOT_SERVED: Final = {
    **{api.kafka_name: absence.feature for absence in ABSENCES for api in absence.apis},
    **{ApiKey(api).kafka_name: "listed with client.telemetry.enable" for api in TELEMETRY_HANDLERS},
    **SINCE_4_1,
}
_LINE: Final = re.compile(r"^\s+(\w+)\(\d+\): (?:UNSUPPORTED|(\d+)(?: to (\d+))?)", re.MULTILINE)
# Kafka lists Produce from 0 on for old librdkafka, as we do; it serves it from 3 on.
LISTED_FROM_0: Final = "Produce"


def versions_of_kafka() -> dict[str, str]:
    """The stable versions of each API that brokers serve, by name, as `0-5`."""
    folder = Path(kafka_classpath(KAFKA_NEWEST_VERSION).removesuffix("/*"))
    found = {}
    with ZipFile(folder / f"kafka-clients-{KAFKA_NEWEST_VERSION}.jar") as jar:
        for name in jar.namelist():
            if not re.fullmatch(r"common/message/\w+Request\.json", name):
                continue
            lines = jar.read(name).decode().splitlines()
            message: Any = json.loads("\n".join(re.sub(r"^\s*//.*| //.*", "", line) for line in lines))
            if "broker" not in message.get("listeners", ()) or message["validVersions"] == "none":
                continue
            lowest, _, highest = message["validVersions"].partition("-")
            newest = int(highest or lowest) - bool(message.get("latestVersionUnstable"))
            api = message["name"].removesuffix("Request")
            if newest >= int(lowest):
                found[api] = f"{0 if api == LISTED_FROM_0 else lowest}-{newest}"
    return found


def versions_of_ours(bootstrap: str) -> dict[str, str]:
    """As Kafka's command finds them."""
    command = "org.apache.kafka.tools.BrokerApiVersionsCommand"
    printed = run_kafka_tool(command, "--bootstrap-server", bootstrap, version=KAFKA_NEWEST_VERSION).stdout
    return {
        name: ABSENT if lowest is None else f"{lowest}-{highest or lowest}"
        for name, lowest, highest in (match.groups() for match in _LINE.finditer(printed))
    }


def test_a_newest_client_finds_named_differences_only(bootstrap: str) -> None:
    try:
        theirs = versions_of_kafka()
        ours = versions_of_ours(bootstrap)
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    assert len(theirs) > 70, theirs
    differences = {api for api in theirs if ours.get(api, ABSENT) != theirs[api]}
    unnamed = {api: (theirs[api], ours.get(api, ABSENT)) for api in differences - NOT_SERVED.keys()}
    assert not unnamed
    more = {api for api, found in ours.items() if found != ABSENT and api not in theirs}
    assert not more
    # The page has each of them, and no other.
    page = (CHECKOUT / "docs" / "compatibility.md").read_text()
    section = page.split("## Versions beside Kafka 4.4")[1].split("\n## ")[0]
    named = set(re.findall(r"\b([A-Z]\w+)\b", " ".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))))
    assert named & theirs.keys() == differences
