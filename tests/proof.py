"""What takes hours: run before a release and before a change is called done, with its figures kept in docs/proof.md.

    python -m tests.proof [NAME …]      or make proof PROOFS='sim chaos'; without names all of them, in this order

Each proof is a make target that ends with a line of figures. That line, how long it took, the commit, the day and the
load of the machine at the begin become its row of the page. A proof that fails has a row, too, and the rest still runs.
What each one printed is kept in `.cache/proof/NAME.log`.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = Path(__file__).parents[1]
PAGE: Final = CHECKOUT / "docs" / "proof.md"
LOGS: Final = CHECKOUT / ".cache" / "proof"
_FIGURE_CHARACTERS_MAX: Final = 200


class Proof(NamedTuple):
    """A long run: its name, the arguments of make, and a pattern of the line that has its figures."""

    name: str
    arguments: tuple[str, ...]
    figures: str
    hours: str
    """About how long it takes on two cores."""


_PYTEST: Final = r"=* ?(.*\b(?:passed|failed|error).* in [\d.]+s.*?) ?=*"

PROOFS: Final = (
    Proof("tests", ("test-proof",), _PYTEST, "0.2"),
    Proof("sim", ("sim", "SEEDS=10000"), r"(\d+ of \d+ seeds in .*)", "1.7"),
    Proof("chaos", ("chaos", "SECONDS=3600"), r"((?:held|FAILED): .*)", "1"),
    Proof("chaos-attacked", ("chaos", "SECONDS=3600", "ATTACKERS=1"), r"((?:held|FAILED): .*)", "1"),
    Proof("fuzz", ("fuzz", "SECONDS=3600"), r"((?:held|FAILED): .*)", "1"),
    Proof("fuzz-costs", ("fuzz-costs", "SECONDS=600"), r"((?:held|FAILED): .*)", "0.2"),
    Proof("largest-requests", ("largest-requests",), _PYTEST, "0.3"),
    Proof("shaken", ("test-shaken",), _PYTEST, "0.3"),
    Proof("copies", ("copies", "RUNS=5"), r"(.*\d.*)", "0.5"),
    Proof("mirror", ("mirror-proof",), r"(.*\d.*)", "0.5"),
    Proof("queues", ("queue-proof",), r"((?:held|FAILED): .*)", "0.5"),
    Proof("mixed-groups", ("mixed-groups",), r"(.*\d.*)", "0.1"),
    Proof("streams", ("streams",), r"(.*\d.*)", "0.3"),
    Proof("connect", ("connect",), r"(.*\d.*)", "0.3"),
    Proof("rights", ("rights",), r"(.*\d.*)", "0.2"),
    Proof("quotas", ("quotas",), r"(.*\d.*)", "0.3"),
    Proof("many-consumers", ("many-consumers",), r"(.*\d.*)", "0.1"),
    Proof("pipeline-kills", ("pipeline-kills", "KILLS=100"), r"(.*\d.*)", "1"),
    Proof("sink-kills", ("sink-kills",), _PYTEST, "0.3"),
    Proof("operator-days", ("operator-days",), r"(\d+ of \d+ days .*)", "0.3"),
    Proof("declared-days", ("declared-days", "SEEDS=400"), r"(\d+ of \d+ days .*)", "0.2"),
    Proof("e2e-slow", ("e2e-slow",), _PYTEST, "0.4"),
    Proof("e2e-extra", ("e2e-extra",), _PYTEST, "1"),
    Proof("attack", ("attack",), r"((?:held|FAILED): .*)", "1"),
)

_HEADER: Final = (
    "| proof | figures | took | day | commit | load before |\n| --- | --- | --- | --- | --- | --- |\n"
)
_ROW: Final = re.compile(r"^\| `make ([^`]*)` \|.*$", re.MULTILINE)


def figures_of(printed: str, pattern: str) -> str:
    """The last line that the pattern matches whole, shortened; where none does, the last line of all."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    for line in reversed(lines):
        if found := re.fullmatch(pattern, line):
            return found[1].strip()[:_FIGURE_CHARACTERS_MAX]
    return lines[-1][:_FIGURE_CHARACTERS_MAX] if lines else "nothing was printed"


def with_row(page: str, command: str, row: str) -> str:
    """The page with a command's row replaced, or added at the end of the table."""
    if _HEADER not in page:
        raise ValueError(f"{PAGE} has no table of proofs: write its header back")
    for found in _ROW.finditer(page):
        if found[1] == command:
            return page[: found.start()] + row + page[found.end() :]
    before, _, after = page.partition(_HEADER)
    rows = re.match(r"(?:\|.*\n)*", after)
    assert rows is not None
    return f"{before}{_HEADER}{rows[0]}{row}\n{after[rows.end() :]}"


def run(proof: Proof) -> bool:
    """Run one, and write its row; whether it held."""
    command = " ".join(proof.arguments)
    load = os.getloadavg()[0]
    print(f"make {command} (about {proof.hours} h) …", flush=True)
    began = time.monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{proof.name}.log"
    with log.open("w") as file:
        done = subprocess.run(
            ["make", *proof.arguments], cwd=CHECKOUT, stdout=file, stderr=subprocess.STDOUT, check=False
        )
    minutes = (time.monotonic() - began) / 60
    figures = figures_of(log.read_text(errors="replace"), proof.figures).replace("|", "/")
    if done.returncode:
        figures = f"**failed** ({done.returncode}): {figures}"
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout.strip()
    day = datetime.date.today().isoformat()
    row = f"| `make {command}` | {figures} | {minutes:.0f} min | {day} | {commit} | {load:.1f} |"
    PAGE.write_text(with_row(PAGE.read_text(), command, row))
    print(row, flush=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(proof.name for proof in PROOFS))
    names = parser.parse_args().names or [proof.name for proof in PROOFS]
    if unknown := set(names) - {proof.name for proof in PROOFS}:
        parser.error(f"no such proof: {', '.join(sorted(unknown))}")
    held = [run(proof) for proof in PROOFS if proof.name in names]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
