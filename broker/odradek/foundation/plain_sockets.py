"""Loads asyncio and uvloop without OpenSSL, for a process that speaks no TLS through its event loop.

Both import `ssl` whether or not anything uses it. OpenSSL takes 4 MB of an idle broker's 31, and time of its start.
Here both bind the names of a stand-in. It is gone once they are loaded, and a later `import ssl` loads the module.
Only the event loop of such a process has no TLS: uvloop refuses an SSLContext with a TypeError.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Final

# What asyncio and uvloop bind when they are imported. The numbers are OpenSSL's.
_ERRORS: Final = ("SSLError", "SSLWantReadError", "SSLSyscallError", "SSLZeroReturnError", "CertificateError")
_CLASSES: Final = ("SSLContext", "MemoryBIO", "create_default_context")
_NUMBERS: Final = {"SSL_ERROR_WANT_READ": 2, "SSL_ERROR_WANT_WRITE": 3, "SSL_ERROR_SYSCALL": 5}


class _StandIn(ModuleType):
    """`ssl` for importers that use nothing of it. Any other name comes from the module, which is loaded then."""

    def __init__(self) -> None:
        super().__init__("ssl")
        vars(self).update(_NUMBERS)
        vars(self).update({name: type(name, (OSError,), {}) for name in _ERRORS})
        vars(self).update({name: type(name, (), {}) for name in _CLASSES})

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get("ssl") is self:
            del sys.modules["ssl"]
        import ssl

        return getattr(ssl, name)


def load_event_loop() -> None:
    """Import asyncio, and uvloop where it is installed. Where `ssl` or asyncio is loaded already, nothing changes."""
    if "ssl" in sys.modules or "asyncio" in sys.modules:
        return
    stand_in = sys.modules["ssl"] = _StandIn()
    try:
        import asyncio  # noqa: F401

        try:
            import uvloop  # noqa: F401
        except ImportError:
            return
    finally:
        if sys.modules.get("ssl") is stand_in:
            del sys.modules["ssl"]
