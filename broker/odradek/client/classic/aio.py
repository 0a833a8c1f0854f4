"""The documents' clients for asyncio: `from odradek.classic import aio`.

Everything that they take, give and raise is in `odradek.classic`.
"""

# A sorter of imports would write a statement for each name.
# isort: skip_file
from __future__ import annotations

from odradek.client.classic.async_connector import ConsumerConnector as ConsumerConnector
from odradek.client.classic.async_producer import Producer as Producer
from odradek.client.classic.simple_consumer import SimpleConsumer as SimpleConsumer
from odradek.client.classic.streams import AsyncKafkaStream as AsyncKafkaStream
