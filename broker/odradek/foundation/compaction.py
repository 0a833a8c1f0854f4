"""The warning for cleanup.policy=compact on a broker whose cleaner is off.

Answers to clients, the broker's log and the command line all use this text.
"""

from __future__ import annotations

from collections.abc import Collection

_WHY = "log.cleaner.enable=false, so older records of a key stay"


def compaction_warning(policy: Collection[str], *, is_enabled: bool) -> str | None:
    """The warning for a cleanup.policy, without a full stop; None when it has its effect.

    `is_enabled` is the broker's log.cleaner.enable.
    """
    if is_enabled or "compact" not in policy:
        return None
    if "delete" in policy:
        return f"cleanup.policy={','.join(policy)}: {_WHY} until retention deletes them"
    return f"cleanup.policy=compact: {_WHY} and the topic grows without bound; compact,delete bounds it by retention"
