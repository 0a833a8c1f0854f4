"""A client for the brokers, with its errors as those of the pipeline. No Spark session is needed for it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.client.properties import BOOTSTRAP_SERVERS
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek_pipeline.errors import AnswerTimeoutError, NotFoundError, PipelineError, UnreachableError
from odradek_pipeline.session import (
    BINDING_FOLDER,
    BINDING_VARIABLE,
    PREFIX,
    SparkConnection,
    read_connection,
)
from odradek_pipeline.topics import make_client


def connection_by_flags(given: Mapping[str, str]) -> SparkConnection:
    """The brokers of `given` settings of Kafka's clients, or of the mounted folder. Raises ConnectionMissingError."""
    folder = Path(os.environ.get(BINDING_VARIABLE, BINDING_FOLDER))
    return read_connection({f"{PREFIX}{name}": value for name, value in given.items()}, folder)


@asynccontextmanager
async def connect_client(connection: SparkConnection, what: str) -> AsyncIterator[Client]:
    """A connected client. `what` is done with it, for messages. Raises PipelineError for what brokers say."""
    try:
        async with make_client(connection.settings) as client:
            yield client
    except UnknownTopicOrPartition as failure:
        raise NotFoundError(
            f"{failure}. The brokers are {connection.settings[BOOTSTRAP_SERVERS]}"
        ) from failure
    except ClientTimeout as failure:
        raise AnswerTimeoutError(str(failure)) from failure
    except ConnectionFailed as failure:
        raise UnreachableError(str(failure)) from failure
    except OdradekError as failure:
        raise PipelineError(f"{what}: {failure}") from failure
