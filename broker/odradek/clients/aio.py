"""The documents' clients for asyncio: `from odradek.clients.aio import SimpleConsumer`."""

# A sorter of imports would write a statement for each name.
# isort: skip_file
from __future__ import annotations

from odradek.clients.simple_consumer import (
    EARLIEST_TIME as EARLIEST_TIME,
    LATEST_TIME as LATEST_TIME,
    FetchRequest as FetchRequest,
    SimpleConsumer as SimpleConsumer,
)
