"""The name by which the fixture's own calls are known to its broker, which spares them the faults that a test asks for.

`create_topic` is no part of what a test tries: a fault for the first Metadata request has to meet the program under
test.
"""

from __future__ import annotations

from typing import Final

FIXTURE_CLIENT_ID: Final = "odradek.testing (fixture)"
