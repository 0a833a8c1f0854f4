"""The warning for cleanup.policy=compact: this broker does not compact yet.

Answers to clients, the broker's log and the command line all use this text. Compaction will remove it.
"""

from __future__ import annotations

from collections.abc import Collection

_WHY = "this broker does not compact yet, so older records of a key stay"


def compaction_warning(policy: Collection[str]) -> str | None:
    """The warning for a cleanup.policy, without a full stop; None when it does not ask for compaction."""
    if "compact" not in policy:
        return None
    if "delete" in policy:
        return f"cleanup.policy={','.join(policy)}: {_WHY} until retention deletes them"
    return f"cleanup.policy=compact: {_WHY} and the topic grows without bound; compact,delete bounds it by retention"
