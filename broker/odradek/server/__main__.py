"""`python -m odradek.server [key=value ...]`: a broker from settings alone, for development and profiles."""

from __future__ import annotations

import logging
import sys

from odradek.foundation.settings import Settings
from odradek.server.start import run

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    entries = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    entries.setdefault("listeners", "PLAINTEXT://127.0.0.1:9092")
    sys.exit(run(Settings(entries)))
