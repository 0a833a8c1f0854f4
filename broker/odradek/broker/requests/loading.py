"""The type of a handler, and the loading of its module at its first request.

A handler that is a coroutine function is answered later: `load` makes a pending answer of its coroutine.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from types import ModuleType
from typing import cast

from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.table import Handler
from odradek.network.pending import Pending
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.messages import Message

# A message of the request's version, a whole frame, either of them later, or None where no answer is due.
Answer = (
    Message
    | Frame
    | Pending[Message]
    | Pending[Frame]
    | Pending[Frame | None]
    | Pending[Message | Frame | None]
    | None
)
# The request is decoded, or the frame where the handler takes frames.
Handle = Callable[[object, AnyContext], Answer]


def load(api_key: int, table: Mapping[int, Handler]) -> Handle:
    """Import the module that serves `api_key` and return its handler. Raises KeyError for an API not served."""
    handle = importlib.import_module(f"odradek.broker.requests.{table[api_key].module}").handle
    if inspect.iscoroutinefunction(handle):
        return wraps(handle)(lambda request, context: Pending(handle(request, context)))
    return cast(Handle, handle)


def for_many(module: str) -> ModuleType:
    """The module that answers what has too many elements for the handler that asks: it uses that handler's parts."""
    return importlib.import_module(f"odradek.broker.requests.{module}")
