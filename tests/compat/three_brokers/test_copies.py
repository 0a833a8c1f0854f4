"""Kafka's TransactionalMessageCopier while brokers and copiers end and return; `copies` has the long version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.three_brokers.copies import Plan, copied
from tests.support.cluster_processes import Cluster
from tests.support.copiers import Log, compared
from tests.support.java import KAFKA_OLD_VERSION, KAFKA_VERSION

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

RECORDS = 10_000


@pytest.mark.parametrize("version", [KAFKA_OLD_VERSION, KAFKA_VERSION])
def test_two_copiers_copy_each_record_once(cluster: Cluster, tmp_path: Path, version: str) -> None:
    faults = ("broker killed, copier killed", "broker stopped")
    run = copied(
        cluster, tmp_path, Plan(records=RECORDS, transaction_size=250, version=version, seed=1, faults=faults)
    )
    print(run)
    assert run.verdict.copied == RECORDS
    assert run.faults[faults[0]] == 1
    assert run.is_clean, run.failures


def test_the_verdict_finds_each_kind_of_wrong_copy() -> None:
    source = {0: [b"0", b"2", b"4"], 1: [b"1", b"3"]}

    def verdict(
        first: list[bytes], *, end: int = 7, stable: int = 7
    ) -> tuple[int, int, int, list[int], list[int]]:
        committed = Log({0: first, 1: [b"1", b"3"]}, {0: stable, 1: 5})
        everything = Log({0: [*first, b"aborted"], 1: [b"1", b"3"]}, {0: end, 1: 5})
        one = compared(source, committed, everything)
        assert one.aborted == 1
        assert one.is_clean is (one.copied == 5 and first == source[0] and end == stable)
        return one.missing, one.doubled, one.foreign, list(one.disordered), list(one.unstable)

    assert verdict([b"0", b"2", b"4"]) == (0, 0, 0, [], [])
    assert verdict([b"0", b"4"]) == (1, 0, 0, [], [])
    assert verdict([b"0", b"2", b"4", b"2"]) == (0, 1, 0, [], [])
    assert verdict([b"0", b"2", b"4", b"9"]) == (0, 0, 1, [], [])
    assert verdict([b"0", b"4", b"2"]) == (0, 0, 0, [0], [])
    assert verdict([b"0", b"2", b"4"], stable=5) == (0, 0, 0, [], [0])
    assert not compared({0: []}, Log({0: []}, {0: 0}), Log({0: []}, {0: 0})).is_clean, "nothing was copied"
