"""Other people's tests as judges: `python -m tests.foreign --suite clients`.

    --class ConsumerBounceTest --method testClose    these only; each may be repeated
    --kafka                                          Kafka itself in the same harness
    --left-out                                       what the allow-list leaves out, too

Each test is a line. The end names what differs from the allow-list, `tests/foreign/SUITE.toml`. Ends with 0 when
nothing does: what is listed to pass passes, and what is listed to fail fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.foreign.allow_list import (
    AllowListError,
    Kind,
    read_allow_list,
    short_class,
    short_name,
    surprises,
)
from tests.foreign.play import FAILED, PASSED, Shown, methods_of, play
from tests.foreign.suites import SUITES, suite_named


def _tell(one: Shown) -> None:
    if one.status == "SKIPPED":
        return
    print(f"{one.status:10} {one.seconds:7.1f} s  {short_name(one.test)}", flush=True)
    if one.status == "FAILED":
        print(f"    {one.message[:400]}\n    logs: {one.logs}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], required=True)
    parser.add_argument(
        "--class", dest="classes", action="append", metavar="CLASS", help="without its package"
    )
    parser.add_argument("--method", dest="methods", action="append", metavar="METHOD")
    parser.add_argument("--kafka", action="store_true", help="start Apache Kafka itself: the control")
    parser.add_argument("--left-out", action="store_true", help="play what the allow-list leaves out, too")
    parser.add_argument(
        "--list", action="store_true", help="print what is expected of each method, and play none"
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="write what each test showed, as JSON")
    arguments = parser.parse_args()
    # What it started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    suite = suite_named(arguments.suite)
    folder = Path(tempfile.mkdtemp(prefix=f"odradek-foreign-{suite.name}-"))
    every = methods_of(suite, folder)
    try:
        expected = read_allow_list(suite.allow_list, every)
    except AllowListError as error:
        print(error, file=sys.stderr)
        return 1
    wanted = [
        one
        for one in every
        if (not arguments.classes or short_class(one) in arguments.classes)
        and (not arguments.methods or one.partition("#")[2] in arguments.methods)
    ]
    if not wanted:
        parser.error(f"the suite {suite.name} has no such test; --list shows all")
    if arguments.list:
        for method in wanted:
            kind, reason = expected[method]
            print(f"{kind.value:12}  {short_name(method)}{f': {reason}' if reason else ''}")
        return 0
    played = [one for one in wanted if arguments.left_out or expected[one].kind in (Kind.PASSES, Kind.FAILS)]
    seen = play(suite, played, folder, kafka=arguments.kafka, tell=_tell)
    if arguments.results:
        arguments.results.write_text(json.dumps(dict(seen), indent=1))
    counts = Counter(verdict.kind for verdict in seen.values())
    left_out = Counter(expected[one].kind.value for one in wanted if one not in seen)
    print(
        f"{suite.name} {suite.version}: {', '.join(f'{number} {kind}' for kind, number in sorted(counts.items()))}"
    )
    print(
        "left out: " + (", ".join(f"{number} {kind}" for kind, number in sorted(left_out.items())) or "none")
    )
    if arguments.kafka:
        # What fails with Kafka too says nothing of Odradek.
        return int(counts[PASSED] < len(seen))
    found = surprises(expected, seen)
    for line in found:
        print(line)
    if not counts[FAILED] and not found:
        shutil.rmtree(folder, ignore_errors=True)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
