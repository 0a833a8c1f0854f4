"""Advice for an address at which a port cannot listen."""

from __future__ import annotations

import errno
from typing import Final

_ADVICE: Final = {
    errno.EADDRINUSE: "choose another address, or stop the process that uses it",
    errno.EACCES: "choose a port above 1023, or give the process the right to lower ones",
}


def is_elsewhere(error: OSError) -> bool:
    """Whether the address is none of this machine. A name that is not found has a number below 0."""
    number = error.errno or 0
    return number < 0 or number == errno.EADDRNOTAVAIL


def advise_on_address(error: OSError) -> str:
    """What helps against the failure."""
    if is_elsewhere(error):
        return "choose an address of this machine"
    return _ADVICE.get(error.errno or 0, "choose another address")
