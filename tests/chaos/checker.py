"""All checks over one round's history and the logs it left behind."""

from __future__ import annotations

from collections.abc import Sequence

from tests.chaos.anomalies import Anomaly
from tests.chaos.check_groups import check_groups
from tests.chaos.check_keyed import check_keyed
from tests.chaos.check_leaders import check_leaders
from tests.chaos.check_readers import check_readers
from tests.chaos.check_records import check_records
from tests.chaos.check_service import check_service
from tests.chaos.check_transactions import check_transactions
from tests.chaos.final_logs import FinalState
from tests.chaos.history import Event


def check(events: Sequence[Event], final: FinalState, *, topic: str) -> list[Anomaly]:
    """Everything that is wrong; `topic` is what the groups consume."""
    return [
        *check_records(events, final),
        *check_readers(events, final),
        *check_leaders(events, final),
        *check_groups(events, final, topic=topic),
        *check_service(events, final),
        *check_transactions(events),
        *check_keyed(events, final),
    ]
