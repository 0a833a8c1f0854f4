"""What a flow counts, in metrics and on its page."""

from odradek.foundation.ids import TopicPartition
from odradek.mirror.counters import COMMITTED, FlowCounters
from odradek.mirror.flow_samples import flow_page, flow_samples
from odradek.mirror.passed import PassedBatch

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Wall:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def batch(
    partition: TopicPartition,
    first: int,
    count: int,
    *,
    opened: str | None = None,
    timestamp_ms: int = 990_000,
) -> PassedBatch:
    target = TopicPartition(f"s.{partition.topic}", partition.partition)
    return PassedBatch(
        partition, target, first, first + count, first, count, True, timestamp_ms, count * 10, opened
    )


def values(counters: FlowCounters) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in flow_samples(counters, is_running=True):
        assert isinstance(sample.value, int | float)
        by_labels = found.setdefault(sample.metric.name.removeprefix("odradek_mirror_"), {})
        assert sample.labels not in by_labels
        by_labels[sample.labels] = sample.value
    return found


def test_batches_are_counted_by_partition_and_reason() -> None:
    counters = FlowCounters("s", wall_ms=Wall())
    counters.set_assignment([A0, A1])
    counters.note_passed([batch(A0, 0, 5), batch(A0, 5, 3, opened="gaps"), batch(A1, 0, 1)])
    counters.transactions[COMMITTED] += 1
    found = values(counters)
    assert found["records_total"] == {("s", "a", "0"): 8, ("s", "a", "1"): 1}
    assert found["bytes_total"][("s", "a", "0")] == 80
    assert found["batches_total"] == {("s", "a", "0"): 2, ("s", "a", "1"): 1}
    assert found["batches_opened_total"] == {("s", "a", "0", "gaps"): 1}
    assert found["last_record_age_seconds"][("s", "a", "0")] == 10
    assert found["transactions_total"] == {("s", "committed"): 1}
    assert found["flow_running"] == {("s",): 1} and found["partitions"] == {("s",): 2}


def test_lag_is_measured_from_the_moment_when_records_began_to_wait() -> None:
    wall = Wall()
    counters = FlowCounters("s", wall_ms=wall)
    counters.set_assignment([A0])
    counters.at(A0, position=10, end_offset=10)
    wall.ms += 60_000
    found = values(counters)
    assert found["lag_records"] == {("s", "a", "0"): 0} and found["lag_seconds"] == {("s", "a", "0"): 0}
    counters.at(A0, end_offset=20)
    wall.ms += 5_000
    counters.at(A0, end_offset=30)
    wall.ms += 5_000
    assert values(counters)["lag_seconds"] == {("s", "a", "0"): 10}
    # The records that were seen first are there; those of later wait from now on.
    counters.note_passed([batch(A0, 10, 10, timestamp_ms=0)])
    wall.ms += 1_000
    found = values(counters)
    assert found["lag_records"] == {("s", "a", "0"): 10} and found["lag_seconds"] == {("s", "a", "0"): 1}
    counters.note_passed([batch(A0, 20, 10)])
    assert values(counters)["lag_seconds"] == {("s", "a", "0"): 0}


def test_lag_that_is_not_known_has_no_sample() -> None:
    wall = Wall()
    counters = FlowCounters("s", wall_ms=wall)
    counters.set_assignment([A0])
    counters.at(A0, position=10)
    found = values(counters)
    assert "lag_records" not in found and "lag_seconds" not in found
    page = flow_page(counters, label="s->t", state="running")
    rows = page["partitions"]
    assert isinstance(rows, list)
    (row,) = rows
    assert (row["position"], row["end"], row["lag"], row["lag_seconds"]) == (10, None, None, None)
    counters.at(A0, end_offset=12)
    assert values(counters)["lag_records"] == {("s", "a", "0"): 2}
    wall.ms += 3_000
    # The source does not answer any more: records that it showed before still wait.
    counters.partitions[A0].forget()
    found = values(counters)
    assert "lag_records" not in found and found["lag_seconds"] == {("s", "a", "0"): 3}
    counters.at(A0, end_offset=12)
    counters.clear_assignment()
    found = values(counters)
    assert "lag_records" not in found and "lag_seconds" not in found
    # Another worker moved it since.
    counters.set_assignment([A0])
    counters.at(A0, position=12)
    counters.at(A0, end_offset=12)
    found = values(counters)
    assert found["lag_records"] == {("s", "a", "0"): 0} and found["lag_seconds"] == {("s", "a", "0"): 0}


def test_a_partition_that_stopped_at_another_log_has_no_lag() -> None:
    counters = FlowCounters("s", wall_ms=Wall())
    counters.set_assignment([A0, A1, B0])
    for partition in (A0, A1, B0):
        counters.at(partition, position=10, end_offset=30)
    counters.note_failure("truncated", "lost", partition=A0, is_stopped=True)
    counters.note_failure("damaged", "bad", partition=A1, is_stopped=True)
    counters.note_failure("offset-out-of-range", "lost", partition=B0, is_stopped=True)
    counters.at(B0, end_offset=5)
    assert values(counters)["lag_records"] == {("s", "a", "1"): 20}


def test_counters_do_not_fall_when_a_partition_goes_and_comes_back() -> None:
    counters = FlowCounters("s", wall_ms=Wall())
    counters.set_assignment([A0, A1])
    counters.note_passed([batch(A1, 0, 4)])
    counters.set_assignment([A0])
    counters.note_passed([batch(A1, 4, 4)])  # of a worker that has it no more: not counted
    assert ("s", "a", "1") not in values(counters)["records_total"]
    counters.set_assignment([A0, A1])
    assert values(counters)["records_total"][("s", "a", "1")] == 4


def test_a_stopped_partition_is_shown_with_what_to_do() -> None:
    counters = FlowCounters("s", wall_ms=Wall())
    counters.set_assignment([A0, B0])
    counters.note_failure("truncated", "a-0 lost records 5 to 9; do this", partition=A0, is_stopped=True)
    counters.note_failure("unreachable", "cluster s cannot be reached; start it")
    found = values(counters)
    assert found["partition_stopped"] == {("s", "a", "0"): 1, ("s", "b", "0"): 0}
    assert found["errors_total"] == {("s", "a", "0", "truncated"): 1, ("s", "", "", "unreachable"): 1}
    page = flow_page(counters, label="s->t", state="running")
    partitions = page["partitions"]
    assert isinstance(partitions, list)
    assert partitions[0]["stopped"] == {
        "at_ms": 1_000_000,
        "kind": "truncated",
        "text": "a-0 lost records 5 to 9; do this",
    }
    assert page["last_error"] == {
        "at_ms": 1_000_000,
        "kind": "unreachable",
        "text": "cluster s cannot be reached; start it",
    }
    counters.set_assignment([A0])
    assert values(counters)["partition_stopped"][("s", "a", "0")] == 0
