"""The hostile hour: python -m e2e.attack [NAME …] [--seed N], or `make attack ATTACKS='NAME …' SEED=N`.

It installs the operator and a Cluster of three brokers with logins. KUBECONFIG names the Kubernetes, or one is booted
for it. Honest producers and consumers are at work from then on until the end. Attacks come one after the
other. After each, everything acknowledged must be there and with the consumers, and the Cluster whole again. The last
line has the figures. `.cache/attack` has the evidence of what failed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from e2e import boot, evidence
from e2e.attack import families
from e2e.attack.attacks import ATTACKS, Attack
from e2e.attack.field import ASIDE, ELSEWHERE, REFUSED, Field, wait_seconds
from e2e.install import NAMESPACE, OPERATOR_NAMESPACE

EVIDENCE: Final = boot.CHECKOUT / ".cache" / "attack"
AFTER_SECONDS: Final = 3.0
_REASON_CHARACTERS_MAX: Final = 600


class Outcome(NamedTuple):
    """How one attack ended. `problem` is empty where it held."""

    attack: Attack
    problem: str
    producers_seconds: float
    consumers_seconds: float


def main() -> int:
    arguments = _arguments()
    names = arguments.names or list(ATTACKS)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10_000)
    print(f"seed {seed}, load {os.getloadavg()[0]:.1f}, attacks: {' '.join(names)}", flush=True)
    shutil.rmtree(EVIDENCE, ignore_errors=True)
    EVIDENCE.mkdir(parents=True)
    with boot.kubernetes():
        return _hour([ATTACKS[name] for name in names], seed, is_installed=arguments.installed)


def _arguments() -> argparse.Namespace:
    families.load()
    parser = argparse.ArgumentParser(prog="python -m e2e.attack", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ATTACKS))
    parser.add_argument("--seed", type=int, help="which pods and orders are chosen; random unless given")
    parser.add_argument("--installed", action="store_true", help="use what an earlier run has installed")
    parser.add_argument("--list", action="store_true", help="print names and promises, and attack nothing")
    arguments = parser.parse_args()
    if arguments.list:
        for one in ATTACKS.values():
            print(f"{one.name}: {one.promise}")
        raise SystemExit(0)
    if unknown := set(arguments.names) - set(ATTACKS):
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    return arguments


def _hour(attacks: list[Attack], seed: int, *, is_installed: bool) -> int:
    began = time.monotonic()
    field = Field()
    if is_installed:
        field.collect()
    else:
        field.install()
    print(f"installed after {time.monotonic() - began:.0f} s", flush=True)
    begun_at = field.now()
    outcomes = []
    for one in attacks:
        field.chance = random.Random(f"{seed} {one.name}")
        outcomes.append(_played(field, one))
        if outcomes[-1].problem and not _healed(field):
            break
    at_the_end = field.complaints({})
    for complaint in at_the_end:
        print(f"at the end: {complaint}", flush=True)
    return _concluded(field, attacks, outcomes, at_the_end, time.monotonic() - began, begun_at)


def _played(field: Field, one: Attack) -> Outcome:
    """Play an attack on a whole Cluster, and judge it."""
    field.whole()
    field.collect()
    begin, since, load = field.judge.ends(), field.now(), os.getloadavg()[0]
    problems = []
    try:
        one.play(field)
        field.whole()
        field.at_work()
        wait_seconds(AFTER_SECONDS)
    except REFUSED as refused:
        problems.append(f"{type(refused).__name__}: {refused}")
    try:
        problems += field.complaints(begin)
        until = field.now()
        field.collect()
    except REFUSED as refused:
        problems.append(f"the records cannot be looked at: {refused}")
        until = since + 1
    seconds = (
        field.judge.producers_silence(since, until),
        field.judge.consumers_silence(since, until),
    )
    if max(seconds) > one.silence_seconds_max:
        problems.append(
            f"producers were silent for {seconds[0]:.1f} s and consumers for {seconds[1]:.1f} s, "
            f"and {one.silence_seconds_max:.0f} s are allowed"
        )
    problem = "; ".join(problems)
    if problem:
        _keep_evidence(one, problem)
    word = "FAILED" if problem else "held"
    print(
        f"{word} {one.name}: {until - since:.0f} s, silence {seconds[0]:.2f} s and {seconds[1]:.2f} s, "
        f"load {load:.1f}{': ' + problem[:_REASON_CHARACTERS_MAX] if problem else ''}",
        flush=True,
    )
    return Outcome(one, problem, seconds[0], seconds[1])


def _healed(field: Field) -> bool:
    """Whether the Cluster is whole, so that the next attack can say something."""
    try:
        field.upgrade_operator()
        field.upgrade_cluster()
        field.whole()
    except REFUSED as refused:
        print(f"the Cluster does not come back, so the rest is left out: {refused}", flush=True)
        return False
    return True


def _keep_evidence(one: Attack, problem: str) -> None:
    namespaces = [NAMESPACE, OPERATOR_NAMESPACE, ASIDE, ELSEWHERE]
    Path(EVIDENCE, f"{one.name}.txt").write_text(f"{problem}\n\n{evidence.collected(namespaces)}")


def _concluded(
    field: Field,
    attacks: list[Attack],
    outcomes: list[Outcome],
    at_the_end: list[str],
    seconds: float,
    begun_at: float,
) -> int:
    failed = [one.attack.name for one in outcomes if one.problem]
    left_out = len(attacks) - len(outcomes)
    has_held = not failed and not at_the_end and not left_out
    lost = sum("are lost" in one for one in at_the_end)
    figures = (
        f"{len(outcomes) - len(failed)} of {len(attacks)} attacks in {seconds:.0f} s, "
        f"longest silence of producers {max((one.producers_seconds for one in outcomes), default=0):.2f} s, "
        f"of consumers {max((one.consumers_seconds for one in outcomes), default=0):.2f} s, "
        f"{len(field.judge.acknowledged)} records acknowledged, lost {'some' if lost else 0}"
    )
    print(f"held: {figures}" if has_held else f"FAILED: {figures}; failed: {' '.join(failed) or 'none'}")
    return 0 if has_held else 1


if __name__ == "__main__":
    sys.exit(main())
