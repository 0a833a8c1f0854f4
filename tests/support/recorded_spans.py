"""Spans that a test keeps in memory, in place of an export."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.broker.telemetry.spans import Attributes, SpanContext


@dataclass
class RecordedSpan:
    name: str
    start_ns: int
    attributes: Attributes
    parent: SpanContext | None
    context: SpanContext
    children: list[tuple[str, int, int, Attributes]] = field(default_factory=list)
    end_ns: int = 0
    error: BaseException | None = None

    @property
    def child_names(self) -> list[str]:
        return [name for name, *_ in self.children]

    def add_child(self, name: str, start_ns: int, end_ns: int, attributes: Attributes) -> None:
        self.children.append((name, start_ns, end_ns, attributes))

    def end(self, end_ns: int, *, error: BaseException | None) -> None:
        assert not self.end_ns, f"{self.name} ends twice"
        self.end_ns, self.error = end_ns, error


class RecordedSpans:
    def __init__(self) -> None:
        self.begun: list[RecordedSpan] = []

    def begin(
        self, name: str, start_ns: int, attributes: Attributes, *, parent: SpanContext | None
    ) -> RecordedSpan:
        number = len(self.begun) + 1
        trace_id = number if parent is None else parent.trace_id
        span = RecordedSpan(
            name, start_ns, attributes, parent, SpanContext(trace_id, number, is_sampled=True)
        )
        self.begun.append(span)
        return span
