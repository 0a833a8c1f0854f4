"""Sets of offsets as sorted spans, each from its first offset to before its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]
Spans = Sequence[Span]


def join_spans(spans: Iterable[Span]) -> list[Span]:
    """The same offsets in as few spans as there can be, sorted."""
    made: list[Span] = []
    for start, end in sorted(one for one in spans if one[0] < one[1]):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        else:
            made.append((start, end))
    return made


def append(spans: list[Span], span: Span) -> None:
    """Add a span at the end. One that follows the last without a gap is one with it, so memory is that of the gaps."""
    if spans and spans[-1][1] == span[0]:
        spans[-1] = (spans[-1][0], span[1])
    else:
        spans.append(span)


def subtract_spans(whole: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """The offsets of `whole` that are in none of `taken`."""
    left: list[Span] = []
    holes = join_spans(taken)
    at = 0
    for start, end in join_spans(whole):
        while at < len(holes) and holes[at][1] <= start:
            at += 1
        next_ = at
        while next_ < len(holes) and holes[next_][0] < end:
            if start < holes[next_][0]:
                left.append((start, holes[next_][0]))
            start = max(start, holes[next_][1])
            next_ += 1
        if start < end:
            left.append((start, end))
    return left


def intersect_spans(first: Iterable[Span], second: Iterable[Span]) -> list[Span]:
    """The offsets that are in both."""
    whole = join_spans(first)
    return subtract_spans(whole, subtract_spans(whole, second))


def count_offsets(spans: Iterable[Span]) -> int:
    """The number of offsets; spans that overlap count twice."""
    return sum(end - start for start, end in spans)


def find_overlaps(spans: Iterable[Span]) -> list[Span]:
    """The offsets that lie in two spans or more."""
    found: list[Span] = []
    reached = -1
    for start, end in sorted(one for one in spans if one[0] < one[1]):
        if start < reached:
            found.append((start, min(end, reached)))
        reached = max(reached, end)
    return join_spans(found)
