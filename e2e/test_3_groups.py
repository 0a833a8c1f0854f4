"""A ConsumerGroup shows a real group and governs it: lag, first position, reset, a fence for active members."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.install import BOOTSTRAP
from e2e.kube import Kube, Resource, condition, is_ready, until
from e2e.workload import member_of, produce

GROUP_SECONDS_MAX = 60.0


def declare_group(kube: Kube, name: str, **spec: Any) -> None:
    declared = {"cluster": "demo", "groupId": name, **spec}
    kube.apply(
        {"apiVersion": "odradek.io/v1", "kind": "ConsumerGroup", "metadata": {"name": name}, "spec": declared}
    )


def shown(kube: Kube, name: str, wanted: Any, what: str) -> Resource:
    """The group's resource once `wanted` holds for its status."""
    return until(
        lambda: kube.get("consumergroup", name),
        lambda one: bool(one.get("status")) and wanted(one["status"]),
        seconds_max=GROUP_SECONDS_MAX,
        what=what,
    )


def lag_of(status: Resource) -> int | None:
    lag = status.get("lag")
    return lag.get("messages") if isinstance(lag, dict) else lag


def test_lag_is_shown_as_it_grows_and_goes(kube: Kube, topic: str) -> None:
    produce(kube, BOOTSTRAP, topic, [f"a{number}" for number in range(30)])
    declare_group(kube, "lagging", topics=[topic])
    with member_of(kube, BOOTSTRAP, topic, "lagging") as member:
        assert sorted(member.read(30)) == sorted(f"a{number}" for number in range(30))
        shown(
            kube,
            "lagging",
            lambda one: one.get("state") == "Stable" and lag_of(one) == 0,
            "no lag with a member",
        )
    produce(kube, BOOTSTRAP, topic, [f"b{number}" for number in range(20)])
    shown(
        kube,
        "lagging",
        lambda one: one.get("state") == "Empty" and lag_of(one) == 20,
        "twenty behind without one",
    )


def test_a_reset_happens_once_for_each_id(kube: Kube, topic: str) -> None:
    values = [f"v{number}" for number in range(30)]
    produce(kube, BOOTSTRAP, topic, values)
    with member_of(kube, BOOTSTRAP, topic, "again") as member:
        member.read(30)
    declare_group(kube, "again", topics=[topic])
    shown(kube, "again", lambda one: lag_of(one) == 0, "all was read")
    reset = {"id": "one", "to": "Earliest", "topics": [topic]}
    kube.patch("consumergroup", "again", {"spec": {"reset": reset}})
    shown(kube, "again", lambda one: lag_of(one) == 30, "all is to be read again")
    with member_of(kube, BOOTSTRAP, topic, "again") as member:
        assert sorted(member.read(30)) == sorted(values)
    shown(kube, "again", lambda one: lag_of(one) == 0, "the same id resets nothing a second time")


def test_a_group_begins_where_it_is_told(kube: Kube, topic: str) -> None:
    produce(kube, BOOTSTRAP, topic, [f"old{number}" for number in range(10)])
    declare_group(kube, "beginning", topics=[topic], initialPosition="Latest")
    until(
        lambda: kube.get("consumergroup", "beginning"), is_ready, seconds_max=GROUP_SECONDS_MAX, what="Ready"
    )
    produce(kube, BOOTSTRAP, topic, ["new"])
    with member_of(kube, BOOTSTRAP, topic, "beginning") as member:
        assert member.read(1) == ["new"], "its own auto.offset.reset says earliest: a commit was there"


@pytest.mark.parametrize("when_active", ["Refuse", "Fence"])
def test_members_that_are_active_keep_a_reset_out_or_are_fenced(
    kube: Kube, topic: str, when_active: str
) -> None:
    name = f"active-{when_active.lower()}"
    produce(kube, BOOTSTRAP, topic, [f"v{number}" for number in range(10)])
    declare_group(kube, name, topics=[topic])
    with member_of(kube, BOOTSTRAP, topic, name) as member:
        member.read(10)
        shown(kube, name, lambda one: lag_of(one) == 0, "all was read")
        reset = {"id": "one", "to": "Earliest", "topics": [topic], "whenActive": when_active}
        kube.patch("consumergroup", name, {"spec": {"reset": reset}})
        if when_active == "Fence":
            lines = member.read(12)
            assert "lost" in lines, f"the member was to lose its partitions: {lines}"
            assert "v" in "".join(lines), "and to read again from the start"
        else:
            refused = until(
                lambda: kube.get("consumergroup", name),
                lambda one: "active" in str(one["status"]).lower() and not is_ready(one),
                seconds_max=GROUP_SECONDS_MAX,
                what="the reset is refused with a reason",
            )
            assert condition(refused, "Ready")["message"]
