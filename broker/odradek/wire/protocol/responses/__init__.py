"""The types of responses, for mypy alone: each has the fields of every version of its API.

`broker.requests.request_types` writes the modules from kio's classes. A decoded response is an instance of kio's class
of its version. A field that the version lacks is absent there.

Import them under TYPE_CHECKING: no process needs them.
"""

from __future__ import annotations

from typing import ClassVar


class Response:
    """A response, or a structure in one."""

    __version__: ClassVar[int]
    __flexible__: ClassVar[bool]
