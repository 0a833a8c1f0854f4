"""What is read from a StatefulSet or Deployment: how many of its pods are as they are to be."""

from __future__ import annotations

import pytest

from odradek_operator.reconcilers.cluster.facts import set_state

WANTED = 2


@pytest.mark.parametrize(
    ("pods", "updated", "current"),
    [
        pytest.param(2, 0, 0, id="nothing has been replaced"),
        pytest.param(3, 1, 0, id="the first new one is beside both of the old"),
        pytest.param(3, 2, 1, id="one of the old is still there, and may be the one that is ready"),
        pytest.param(2, 1, 1, id="one old, one new"),
        pytest.param(2, 2, 2, id="all are new"),
        pytest.param(0, 0, 0, id="none is there"),
    ],
)
def test_former_pods_hold_the_place_of_new_ones(pods: int, updated: int, current: int) -> None:
    body = {
        "metadata": {"generation": 3},
        "spec": {"replicas": WANTED},
        "status": {"observedGeneration": 3, "replicas": pods, "updatedReplicas": updated, "readyReplicas": 2},
    }
    state = set_state(body)
    assert (state.wanted, state.current) == (WANTED, current)


def test_nothing_is_current_until_the_newest_form_was_seen() -> None:
    body = {
        "metadata": {"generation": 4},
        "spec": {"replicas": WANTED},
        "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2},
    }
    assert set_state(body).current == 0
