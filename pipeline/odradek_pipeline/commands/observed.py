"""An output whose commits and failures are counted."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from odradek_pipeline.metrics import RunMetrics
from odradek_pipeline.outputs.output import Committed, MergingOutput, Output, OutputState
from odradek_pipeline.runs.record import RunRecord
from odradek_pipeline.runs.steps import Steps


class ObservedOutput:
    """As the output that it stands for."""

    def __init__(self, output: Output, metrics: RunMetrics) -> None:
        self._output = output
        self._metrics = metrics

    def newest(self) -> OutputState:
        known = self._output.newest()
        self._metrics.found(known.record, known.holdings)
        return known

    def commit(self, known: OutputState, record: RunRecord, rows: DataFrame, steps: Steps) -> Committed:
        """As Output.commit."""
        committed = self._output.commit(known, record, rows, steps)
        self._metrics.committed(committed.record, committed.rows, committed.size_bytes)
        return committed

    def runs(self, count_max: int | None) -> Sequence[Committed]:
        return self._output.runs(count_max)

    def rows(self) -> DataFrame | None:
        return self._output.rows()


class ObservedMergingOutput(ObservedOutput):
    """As a table that can change single rows."""

    def __init__(self, output: MergingOutput, metrics: RunMetrics) -> None:
        super().__init__(output, metrics)
        self._merging = output

    def merge(self, known: OutputState, record: RunRecord, changes: DataFrame, steps: Steps) -> Committed:
        """As MergingOutput.merge."""
        committed = self._merging.merge(known, record, changes, steps)
        self._metrics.committed(committed.record, committed.rows, committed.size_bytes)
        return committed


def observed(output: Output, metrics: RunMetrics) -> Output:
    """The output with its commits counted."""
    if isinstance(output, MergingOutput):
        return ObservedMergingOutput(output, metrics)
    return ObservedOutput(output, metrics)
