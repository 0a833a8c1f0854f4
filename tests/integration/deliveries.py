"""The delivery reports of a producer of librdkafka for the numbers that it wrote."""

from __future__ import annotations

from typing import Any


class Deliveries:
    """`acknowledged` are numbers in the order in which their answers came, `failed` are words."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.failed: list[str] = []

    def told(self, number: int) -> Any:
        """What to call with the answer for a number."""

        def told(error: Any, message: Any) -> None:
            if error is None:
                self.acknowledged.append(number)
            else:
                self.failed.append(f"{number}: {error}")

        return told
