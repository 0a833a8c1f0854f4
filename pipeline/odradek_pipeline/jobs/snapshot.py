"""`odradek-pipeline snapshot` as a script for spark-submit."""

from __future__ import annotations

import sys

from odradek_pipeline.cli.main import run

if __name__ == "__main__":
    sys.exit(run(["snapshot", *sys.argv[1:]]))
