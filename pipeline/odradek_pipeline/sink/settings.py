"""The sink's options as values, and the names that follow from them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek_pipeline.errors import OptionError
from odradek_pipeline.settings.options import WRITING, Options

# What Spark adds to the options of a sink.
_SPARKS: Final = frozenset({"checkpointlocation", "path", "outputmode", "queryname"})
_PREFIX: Final = "odradek-sink."


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """`sink` names it in transactional ids and markers; `is_lasting` says whether another run has the same name."""

    sink: str
    is_lasting: bool
    topic: str
    marker_topic: str
    timeout_ms: int
    compression: str
    batch_bytes: int

    @classmethod
    def of(cls, given: Mapping[str, str], *, is_stream: bool) -> SinkSettings:
        """Raises OptionError."""
        options = parse_options(given)
        sink: str = options["sinkId"]
        location = next((value for name, value in given.items() if name.lower() == "checkpointlocation"), "")
        if not sink and is_stream:
            if not location:
                raise OptionError(
                    "a stream needs the option 'checkpointLocation', or 'sinkId', to know its own markers"
                )
            sink = hashlib.sha256(location.rstrip("/").encode()).hexdigest()[:24]
        if "/" in sink:
            raise OptionError(f"option 'sinkId' is {sink!r}; it cannot have a slash")
        options.require("bootstrap.servers")
        return cls(
            sink=sink or uuid.uuid4().hex,
            is_lasting=bool(sink),
            topic=options["topic"],
            marker_topic=options.require("markerTopic"),
            timeout_ms=options["transaction.timeout.ms"],
            compression=options["compression.type"],
            batch_bytes=options["batch.size"],
        )

    def id_of(self, name: str | int) -> str:
        """The transactional id of a task by its number, or of the driver."""
        return f"{prefix_of(self.sink)}{name}"


def prefix_of(sink: str) -> str:
    """The common prefix of a sink's transactional ids."""
    return f"{_PREFIX}{sink}."


def parse_options(given: Mapping[str, str]) -> Options:
    """The options of the sink. Raises OptionError for an unknown one."""
    return Options(given, WRITING, ignored=_SPARKS)
