"""Which exceptions of Delta say that another commit was faster. Spark hands them over as text of Java."""

from __future__ import annotations

from odradek_pipeline.outputs.delta import is_conflict


def test_a_conflict_is_known_by_its_own_name() -> None:
    called = "An error occurred while calling o301.save.\n: "
    assert is_conflict(
        f"{called}io.delta.exceptions.ConcurrentTransactionException: [DELTA_CONCURRENT_TRANSACTION]"
    )
    assert is_conflict("[DELTA_CONCURRENT_APPEND] files were added")
    assert not is_conflict(
        f"{called}java.io.IOException\n\tat java.util.concurrent.ConcurrentHashMap.get(Map.java:1)"
    )
