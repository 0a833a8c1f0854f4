"""The two clusters that tests of mirroring share."""

from tests.support.peers import clusters, unique

__all__ = ["clusters", "unique"]
