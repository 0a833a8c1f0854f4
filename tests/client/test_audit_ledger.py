"""The ledger of a producer's audit: whatever happens, the newest reports add up to what was counted for good."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.audit.counts import Counts, digest, window_start
from odradek.client.audit.ledger import Ledger, WindowKey
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.record import Record

ORDERS = TopicPartition("orders", 0)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 60), min_size=1, max_size=4)),
        st.tuples(st.just("pend"), st.lists(st.integers(0, 60), min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["commit", "discard", "publish", "fail"]), st.just([])),
    ),
    max_size=40,
)


def read(published: dict[tuple[WindowKey, int], Counts]) -> dict[int, Counts]:
    """What a reader makes of the newest report of each key."""
    found: dict[int, Counts] = {}
    for (window, _), counts in published.items():
        found.setdefault(window.window_start_ms, Counts()).merge(counts)
    return found


@given(STEPS, st.sampled_from([2, 100]))
def test_reports_add_up_or_a_gap_shows(steps: list[tuple[str, list[int]]], windows_max: int) -> None:
    ledger = Ledger(window_ms=10, windows_max=windows_max)
    published: dict[tuple[WindowKey, int], Counts] = {}
    good: dict[int, Counts] = {}
    pending: list[int] = []

    def count(times: list[int]) -> None:
        for time_ms in times:
            counts = good.setdefault(window_start(time_ms, 10), Counts())
            counts.add(1, digest(time_ms, None, b"v"))

    for kind, times in steps:
        rows = [Record(number, time_ms, None, b"v") for number, time_ms in enumerate(times)]
        if kind == "add" and not pending:
            ledger.add(ORDERS, rows, base_offset=-1, is_pending=False)
            count(times)
        elif kind == "pend":
            ledger.add(ORDERS, rows, base_offset=-1, is_pending=True)
            pending += times
        elif kind == "commit":
            published |= {(window, part): counts for window, part, counts in ledger.with_pending()}
            ledger.commit()
            count(pending)
            pending = []
        elif kind == "discard":
            ledger.discard()
            pending = []
        elif kind in ("publish", "fail"):
            due = ledger.due()
            if kind == "publish":
                published |= {(window, part): counts for window, part, counts in due}
                ledger.mark_published(due)
    published |= {(window, part): counts for window, part, counts in ledger.due()}
    seen = read(published)
    assert ledger.count == sum(one.count for one in good.values())
    if windows_max == 100:
        assert ledger.dropped == 0
    if ledger.dropped == 0:
        assert seen == good
    else:
        assert sum(one.count for one in seen.values()) < ledger.count, "a heartbeat shows the gap"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_a_promise_ripens_when_all_before_it_is_counted(moments: list[tuple[int, int]]) -> None:
    ledger = Ledger(window_ms=10, windows_max=10)
    taken = low = waiting = 0
    for sent, acknowledged in moments:
        taken, low = taken + sent, low + 1
        waiting = min(taken, waiting + acknowledged)
        before = ledger.low_time_ms
        ledger.promise(low, taken=taken, first_unwritten=None if waiting == taken else waiting)
        assert ledger.low_time_ms >= before
        if waiting == taken:
            assert ledger.low_time_ms == low
    first = Ledger(window_ms=10, windows_max=10)
    first.promise(5, taken=3, first_unwritten=1)
    assert first.low_time_ms == -1
    first.promise(6, taken=4, first_unwritten=3)
    assert first.low_time_ms == 5, "the three records before the promise are acknowledged"


def test_hashes_find_what_counts_do_not() -> None:
    two, swapped = Counts(), Counts()
    for value in (b"a", b"b"):
        two.add(1, digest(1, None, value))
    for value in (b"a", b"c"):
        swapped.add(1, digest(1, None, value))
    assert two.count == swapped.count and not two.is_same(swapped)
    thrice = Counts()
    for _ in range(3):
        thrice.add(1, digest(1, None, b"a"))
    once = Counts()
    once.add(1, digest(1, None, b"a"))
    assert thrice.xor_hash == once.xor_hash and thrice.sum_hash != once.sum_hash
    assert (
        len({digest(1, b"ab", b""), digest(1, b"a", b"b"), digest(1, None, b"ab"), digest(1, b"", b"ab")})
        == 4
    )


def test_the_digest_is_the_one_that_is_documented() -> None:
    import hashlib

    text = b"1700000000000:1:k5:value1:1:n-1:"
    wanted = int(hashlib.md5(text).hexdigest()[:15], 16)
    assert digest(1_700_000_000_000, b"k", b"value", [("n", None)]) == wanted
