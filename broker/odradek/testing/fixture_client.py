"""The client id of the fixture's own calls, which the broker excludes from a test's faults. `create_topic` is not part
of the tested program: a fault for the first Metadata request has to hit the program under test.
"""

from __future__ import annotations

from typing import Final

FIXTURE_CLIENT_ID: Final = "odradek.testing (fixture)"
