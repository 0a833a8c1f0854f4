"""The synchronous form of the Python client: `from odradek.sync import Admin, Client, Consumer, Producer`.

For programs without an event loop. The names, arguments and errors are those of the asyncio form in `odradek`, whose
other names serve both. docs/python-client.md explains; errors are in `odradek.errors`.
A name that is imported as itself is one that this module exports (PEP 484).
"""

# A sorter of imports would write a statement for each name.
# isort: skip_file
from __future__ import annotations

from odradek.client.sync.admin import Admin as Admin
from odradek.client.sync.client import Client as Client
from odradek.client.sync.consumer import Consumer as Consumer
from odradek.client.sync.producer import Delivery as Delivery, Producer as Producer
from odradek.client.sync.share_consumer import ShareConsumer as ShareConsumer
