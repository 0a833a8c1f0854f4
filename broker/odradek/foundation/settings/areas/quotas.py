"""The measuring of client quotas; the quotas themselves are in the registry (AlterClientQuotas)."""

from __future__ import annotations

from odradek.foundation.settings.declaration import integer


class QuotaSettings:
    """The windows over which rates are taken."""

    quota_window_num: int = integer(
        11, "Windows over which the bytes and the time of clients with a quota are counted.", 1
    )
    quota_window_size_seconds: int = integer(1, "The length of such a window.", 1)
    controller_quota_window_num: int = integer(
        11, "Windows whose partitions a client may create or delete at once (controller_mutation_rate).", 1
    )
    controller_quota_window_size_seconds: int = integer(1, "The length of such a window.", 1)
