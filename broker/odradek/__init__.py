"""Odradek: a distributed log that speaks Apache Kafka's wire protocol.

The names below are the Python client: `from odradek import Client, Producer, Consumer, Admin`, as
`docs/python-client.md` explains. Each is imported when it is first used, so that `import odradek` and the command
line, which most processes want, load nothing of it. Errors are in `odradek.errors`. `odradek.sync` has the client for
programs without an event loop.
"""

from odradek.foundation.version import __version__

TYPE_CHECKING = False  # as typing's, which is not imported: a command line would wait for it
if TYPE_CHECKING:
    from odradek.client.admin.admin import Admin
    from odradek.client.admin.logs import EARLIEST, LATEST
    from odradek.client.client import Client
    from odradek.client.consumer.blocks import ConsumerRecord
    from odradek.client.consumer.fetches import FetchBounds
    from odradek.client.consumer.topics import Consumer
    from odradek.client.producer.audit import Audit
    from odradek.client.producer.batches import Delivery, RecordMetadata
    from odradek.client.producer.producer import Producer
    from odradek.client.results import (
        AlterOperation,
        CommittedOffset,
        ConfigChange,
        ResourceType,
        TopicSpec,
    )
    from odradek.client.schemas.registry import SchemaRegistry
    from odradek.client.share.deliveries import Acknowledgement, ShareRecord
    from odradek.client.share.sessions import ShareBounds
    from odradek.client.share.share_consumer import ShareConsumer
    from odradek.foundation.ids import TopicPartition
    from odradek.wire.records.compression import Compression

__all__ = [
    "EARLIEST",
    "LATEST",
    "Acknowledgement",
    "Admin",
    "AlterOperation",
    "Audit",
    "Client",
    "CommittedOffset",
    "Compression",
    "ConfigChange",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "FetchBounds",
    "Producer",
    "RecordMetadata",
    "ResourceType",
    "SchemaRegistry",
    "ShareBounds",
    "ShareConsumer",
    "ShareRecord",
    "TopicPartition",
    "TopicSpec",
    "__version__",
]

_HOMES = {
    "Acknowledgement": "odradek.client.share.deliveries",
    "Admin": "odradek.client.admin.admin",
    "AlterOperation": "odradek.client.results",
    "Audit": "odradek.client.producer.audit",
    "Client": "odradek.client.client",
    "CommittedOffset": "odradek.client.results",
    "Compression": "odradek.wire.records.compression",
    "ConfigChange": "odradek.client.results",
    "Consumer": "odradek.client.consumer.topics",
    "ConsumerRecord": "odradek.client.consumer.blocks",
    "Delivery": "odradek.client.producer.batches",
    "EARLIEST": "odradek.client.admin.logs",
    "FetchBounds": "odradek.client.consumer.fetches",
    "LATEST": "odradek.client.admin.logs",
    "Producer": "odradek.client.producer.producer",
    "RecordMetadata": "odradek.client.producer.batches",
    "ResourceType": "odradek.client.results",
    "SchemaRegistry": "odradek.client.schemas.registry",
    "ShareBounds": "odradek.client.share.sessions",
    "ShareConsumer": "odradek.client.share.share_consumer",
    "ShareRecord": "odradek.client.share.deliveries",
    "TopicPartition": "odradek.foundation.ids",
    "TopicSpec": "odradek.client.results",
}


def __getattr__(name: str) -> object:
    """Import a name of the client when it is first used (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
