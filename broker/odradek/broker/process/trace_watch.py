"""Turns the tracing of requests on and off with the settings of a process, so that one without pays nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from odradek.broker.process import late
from odradek.foundation.telemetry_limits import SPAN_EXPORT_SECONDS_MAX

if TYPE_CHECKING:
    from odradek.broker.replication.hosted_partitions import HostedPartitions
    from odradek.broker.requests.dispatch import Dispatcher
    from odradek.broker.requests.tracing.step import TracingStep
    from odradek.broker.telemetry.span_export import OtlpSpans
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.metadata.image.dynamic_settings import DynamicSettings

logger = logging.getLogger(__name__)


class SpanExport:
    """The export of one process; made with its first use. `process` is what it is to the collector."""

    def __init__(self, process: str) -> None:
        self._process = process
        self.spans: OtlpSpans | None = None

    def open(self, settings: Settings) -> OtlpSpans:
        """Raises ImportError where the packages for it are missing."""
        if self.spans is None:
            self.spans = late.OtlpSpans(
                endpoint=settings.trace_otlp_endpoint, service="odradek", instance=self._process
            )
        return self.spans

    def follow(
        self,
        settings: DynamicSettings,
        dispatcher: Dispatcher,
        partitions: HostedPartitions,
        closing: AsyncExitStack,
    ) -> None:
        """Trace the requests of a broker while its settings say so, until `closing`."""
        closing.push_async_callback(self.close)
        closing.callback(TraceWatch(settings, dispatcher, self, partitions=partitions).stop)

    async def close(self) -> None:
        """Send what waits, within a bound of time."""
        if self.spans is None:
            return
        if not await asyncio.to_thread(self.spans.close, seconds_max=SPAN_EXPORT_SECONDS_MAX):
            logger.warning("the last spans are lost: the collector did not take them in time")


class TraceWatch:
    """Follows the settings of one dispatcher. `partitions` are those of a broker."""

    def __init__(
        self,
        settings: DynamicSettings,
        dispatcher: Dispatcher,
        export: SpanExport,
        *,
        partitions: HostedPartitions | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._export = export
        self._partitions = partitions
        self._step: TracingStep | None = None
        self._is_on = False
        self._apply(settings.current)
        self.stop: Callable[[], None] = settings.subscribe(lambda _, current: self._apply(current))

    def _apply(self, settings: Settings) -> None:
        if settings.trace_enable and self._step is None:
            try:
                spans = self._export.open(settings)
            except ImportError as failure:
                logger.error("trace.enable has no effect: %s; install odradek[traces]", failure)
                return
            followers = None if self._partitions is None else late.FollowerWaits(self._partitions)
            self._step = late.TracingStep(spans, followers=followers)
        step = self._step
        if step is None:
            return
        step.sampling_ratio = settings.trace_sampling_ratio
        if settings.trace_enable is not self._is_on:
            self._is_on = settings.trace_enable
            first = (step,) if self._is_on else ()
            self._dispatcher.change_steps(lambda steps: [*first, *(one for one in steps if one is not step)])
