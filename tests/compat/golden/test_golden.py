"""The same request bytes to Apache Kafka 4.1.1 and to us: answers are compared field by field.

Kafka's answers are kept beside this file as JSON, so that no Kafka is needed to compare. To write them again:
`ODRADEK_RECORD_GOLDEN=1 pytest tests/compat/golden`. A difference that is meant stands in `allowed.py` with its reason,
and must still be there: an allowance that is no longer needed fails.

Versions that came after 4.1 have stories of their own (`stories_newer`, `stories_streams`), with the answers of Kafka
4.4.0.

Kafka is formatted without eligible leader replicas (KIP-966). With them it keeps min.insync.replicas as a dynamic
default of the cluster, which is then the source of every topic's value. We need no such default for them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.requests.table import HANDLERS, TELEMETRY_HANDLERS
from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.allowed import ALLOWED
from tests.compat.golden.changed import CHANGED
from tests.compat.golden.stories_acls import SETTINGS as ACLS_SETTINGS
from tests.compat.golden.stories_acls import STORIES as ACLS
from tests.compat.golden.stories_acls import VERSIONS as ACLS_VERSIONS
from tests.compat.golden.stories_admin import STORIES as ADMIN
from tests.compat.golden.stories_data import SETTINGS as DATA_SETTINGS
from tests.compat.golden.stories_data import STORIES as DATA
from tests.compat.golden.stories_dead_letters import SETTINGS as DEAD_LETTERS_SETTINGS
from tests.compat.golden.stories_dead_letters import STORIES as DEAD_LETTERS
from tests.compat.golden.stories_forgery import SETTINGS as FORGERY_SETTINGS
from tests.compat.golden.stories_forgery import STORIES as FORGERY
from tests.compat.golden.stories_groups import STORIES as GROUPS
from tests.compat.golden.stories_leaders import STORIES as LEADERS
from tests.compat.golden.stories_leaders import VERSIONS as LEADERS_VERSIONS
from tests.compat.golden.stories_logins import SETTINGS as LOGINS_SETTINGS
from tests.compat.golden.stories_logins import STORIES as LOGINS
from tests.compat.golden.stories_logins import VERSIONS as LOGINS_VERSIONS
from tests.compat.golden.stories_newer import SETTINGS as NEWER_SETTINGS
from tests.compat.golden.stories_newer import STORIES as NEWER
from tests.compat.golden.stories_quotas import STORIES as QUOTAS
from tests.compat.golden.stories_quotas import VERSIONS as QUOTAS_VERSIONS
from tests.compat.golden.stories_reassignment import STORIES as REASSIGNMENT
from tests.compat.golden.stories_records import STORIES as RECORDS
from tests.compat.golden.stories_repeats import STORIES as REPEATS
from tests.compat.golden.stories_share_fetches import SETTINGS as SHARE_FETCHES_SETTINGS
from tests.compat.golden.stories_share_fetches import STORIES as SHARE_FETCHES
from tests.compat.golden.stories_shares import SETTINGS as SHARES_SETTINGS
from tests.compat.golden.stories_shares import STORIES as SHARES
from tests.compat.golden.stories_streams import SETTINGS as STREAMS_SETTINGS
from tests.compat.golden.stories_streams import STORIES as STREAMS
from tests.compat.golden.stories_telemetry import SETTINGS as TELEMETRY_SETTINGS
from tests.compat.golden.stories_telemetry import STORIES as TELEMETRY
from tests.compat.golden.stories_telemetry import compile_receiver
from tests.compat.golden.stories_tokens import SETTINGS as TOKENS_SETTINGS
from tests.compat.golden.stories_tokens import STORIES as TOKENS
from tests.compat.golden.stories_tokens import VERSIONS as TOKENS_VERSIONS
from tests.compat.golden.stories_transactions import STORIES as TRANSACTIONS
from tests.compat.golden.stories_transactions import VERSIONS as TRANSACTIONS_VERSIONS
from tests.compat.golden.stories_versions import STORIES as OTHER_VERSIONS
from tests.compat.golden.wire import Wire
from tests.support.broker_process import Broker
from tests.support.java import KAFKA_NEWEST_VERSION, KAFKA_VERSION
from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import QUICK

pytestmark = pytest.mark.clients

HERE = Path(__file__).parent
VERSIONS = {
    **OTHER_VERSIONS,
    **TRANSACTIONS_VERSIONS,
    **LEADERS_VERSIONS,
    **QUOTAS_VERSIONS,
    **LOGINS_VERSIONS,
    **ACLS_VERSIONS,
    **TOKENS_VERSIONS,
    **NEWER,
    **STREAMS,
    **SHARES,
    **SHARE_FETCHES,
    **DEAD_LETTERS,
    **TELEMETRY,
}
STORIES = {
    **RECORDS,
    **ADMIN,
    **GROUPS,
    **REASSIGNMENT,
    **TRANSACTIONS,
    **LEADERS,
    **QUOTAS,
    **LOGINS,
    **ACLS,
    **TOKENS,
    **DATA,
    **FORGERY,
    **REPEATS,
    **VERSIONS,
}
# "1", or "newest" for the answers of KAFKA_NEWEST_VERSION to the stories of KAFKA_VERSION.
RECORDING = os.environ.get("ODRADEK_RECORD_GOLDEN", "")
# Its answers to the stories of KAFKA_VERSION, where they are others.
OF_NEWEST = HERE / "of_newest"
_OF_NEWEST_ALONE = frozenset({*NEWER, *STREAMS, *SHARES, *SHARE_FETCHES, *DEAD_LETTERS, *TELEMETRY})
SETTINGS_OF_STORIES = {
    **LOGINS_SETTINGS,
    **ACLS_SETTINGS,
    **TOKENS_SETTINGS,
    **DATA_SETTINGS,
    **FORGERY_SETTINGS,
    **NEWER_SETTINGS,
    **STREAMS_SETTINGS,
    **SHARES_SETTINGS,
    **SHARE_FETCHES_SETTINGS,
    **DEAD_LETTERS_SETTINGS,
    **TELEMETRY_SETTINGS,
}
SETTINGS = QUICK


@pytest.fixture
def peer(tmp_path: Path, story: str) -> Iterator[Broker | KafkaPeer]:
    """A broker of its own for every story: names and ids begin again."""
    broker: Broker | KafkaPeer
    settings = {**SETTINGS, **SETTINGS_OF_STORIES.get(story, {})}
    if RECORDING:
        version = (
            KAFKA_NEWEST_VERSION if story in _OF_NEWEST_ALONE or RECORDING == "newest" else KAFKA_VERSION
        )
        broker = KafkaPeer(
            tmp_path,
            settings=settings,
            version=version,
            has_eligible_leader_replicas=False,
            plug_ins=compile_receiver(tmp_path) if story in TELEMETRY else None,
        )
    else:
        broker = Broker(tmp_path, settings=settings)
    broker.start()
    yield broker
    broker.close()


@pytest.mark.parametrize("story", STORIES)
def test_our_answers_are_kafkas(peer: Broker | KafkaPeer, story: str) -> None:
    wire = Wire(peer.bootstrap)
    try:
        STORIES[story](wire)
    finally:
        wire.close()
    golden = HERE / f"{story}.json"
    answers = json.loads(json.dumps(wire.answers))
    if RECORDING == "newest" and story not in _OF_NEWEST_ALONE:
        golden = OF_NEWEST / golden.name
        if json.loads((HERE / golden.name).read_text()) == answers:
            golden.unlink(missing_ok=True)
            return
    if RECORDING:
        golden.write_text(json.dumps(answers, indent=1, ensure_ascii=True) + "\n")
        return
    found = dict(differences(json.loads(golden.read_text()), answers))
    allowed = ALLOWED.get(story, {})
    unexpected = {path: found[path] for path in found if not any(fnmatchcase(path, row) for row in allowed)}
    assert not unexpected, "\n".join(
        f"{path}: {kafka!r}, ours {ours!r}" for path, (kafka, ours) in unexpected.items()
    )
    needless = [row for row in allowed if not any(fnmatchcase(path, row) for path in found)]
    assert not needless, f"no longer different: {needless}"


def test_what_a_newer_kafka_answers_otherwise_is_named() -> None:
    """Of its answers those are kept that are others (`ODRADEK_RECORD_GOLDEN=newest`)."""
    kept = {file.stem: json.loads(file.read_text()) for file in OF_NEWEST.glob("*.json")}
    assert kept.keys() == CHANGED.keys()
    for story, answers in kept.items():
        found = dict(differences(json.loads((HERE / f"{story}.json").read_text()), answers))
        rows = CHANGED[story]
        assert not [path for path in found if not any(fnmatchcase(path, row) for row in rows)], story
        assert not [row for row in rows if not any(fnmatchcase(path, row) for path in found)], story


def test_every_version_of_every_api_is_compared() -> None:
    """The labels of the stories that go through versions end with the API and the version."""
    labels = [label for story in VERSIONS for label in json.loads((HERE / f"{story}.json").read_text())]
    found = {
        (match[1], int(match[2]))
        for match in (re.search(r"([A-Z_]{5,}) (\d+)", label) for label in labels)
        if match
    }
    offered = {
        (ApiKey(api).name, version)
        for api, handler in {**HANDLERS, **TELEMETRY_HANDLERS}.items()
        for version in range(handler.version_min, handler.version_max + 1)
    }
    # Kafka has it from 4.2 on; our brokers use it among themselves.
    offered.remove((ApiKey.WRITE_TXN_MARKERS.name, 2))
    assert offered <= found, f"without a story: {sorted(offered - found)}"


def differences(kafka: Any, ours: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """(path, (Kafka's, ours)) of everything that is not the same; paths are labels and field names."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for key in kafka.keys() | ours.keys():
            where = f"{path}/{key}" if path else key
            yield from differences(kafka.get(key, "<absent>"), ours.get(key, "<absent>"), where)
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        for index, (one, other) in enumerate(zip(kafka, ours, strict=True)):
            yield from differences(one, other, f"{path}/{index}")
    elif kafka != ours and not (kafka is None and ours == "<words>"):  # we may say more
        yield path, (kafka, ours)
