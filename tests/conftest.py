"""What every test shares: property tests are never failed for being slow, since machines may be busy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A failing example is printed with a blob that replays it; time is pytest's to bound, not a single example's.
settings.register_profile(
    "odradek", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("odradek")
