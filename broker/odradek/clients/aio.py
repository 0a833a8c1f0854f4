"""The documents' clients for asyncio: `from odradek.clients.aio import Producer`.

Everything that they take, give and raise is in `odradek.clients`.
"""

# A sorter of imports would write a statement for each name.
# isort: skip_file
from __future__ import annotations

from odradek.clients.async_connector import ConsumerConnector as ConsumerConnector
from odradek.clients.async_producer import Producer as Producer
from odradek.clients.simple_consumer import SimpleConsumer as SimpleConsumer
from odradek.clients.streams import AsyncKafkaStream as AsyncKafkaStream
