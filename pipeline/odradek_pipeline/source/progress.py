"""Publishes a stream's progress to a consumer group, so that its lag shows wherever lag is looked for.

Spark calls a source's commit while the next batch is planned, which may be much later. A query listener is called after
each batch that is committed. What is published there is for display: the checkpoint alone says where a stream
continues.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from odradek.client.admin.groups import GroupAdmin
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import OdradekError
from odradek_pipeline.connection.client_loop import ClientLoop
from odradek_pipeline.settings.options import CONNECTION, Options
from odradek_pipeline.source.stream_offset import StreamOffset

logger = logging.getLogger(__name__)


class GroupProgress(StreamingQueryListener):
    """`spark.streams.addListener(GroupProgress("orders-load", {"bootstrap.servers": "…"}))`.

    The group has to have no members. `query_name` limits it to one query of the session. Raises OptionError.
    """

    def __init__(self, group_id: str, options: Mapping[str, str], *, query_name: str | None = None) -> None:
        self._group_id = group_id
        self._options = Options(options, CONNECTION)
        self._options.require("bootstrap.servers")
        self._query_name = query_name

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to publish yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Publish the ends of a batch. What fails is logged: a stream does not end for its display."""
        if self._query_name is not None and event.progress.name != self._query_name:
            return
        offsets: dict[Any, int] = {}
        for source in event.progress.sources:
            offsets |= _offsets(source.endOffset)
        if not offsets:
            return
        try:
            with ClientLoop(self._options) as loop:
                committed = {key: CommittedOffset(offset) for key, offset in offsets.items()}
                loop.run(GroupAdmin(loop.client).alter_offsets(self._group_id, committed))
        except OdradekError as failure:
            logger.warning("the progress of %s was not published: %s", self._group_id, failure)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing has changed since the last batch."""


def publish_progress(
    spark: SparkSession, group_id: str, options: Mapping[str, str], *, query_name: str | None = None
) -> GroupProgress:
    """Publish the progress of the session's streams from this format. `options` say where the brokers are."""
    listener = GroupProgress(group_id, options, query_name=query_name)
    spark.streams.addListener(listener)
    return listener


def _offsets(text: str | None) -> Mapping[Any, int]:
    """The offsets in a source's JSON; none of another source's."""
    try:
        given = json.loads(text or "null")
        return StreamOffset.parse(given).offsets if isinstance(given, dict) else {}
    except (ValueError, KeyError, TypeError):
        return {}
