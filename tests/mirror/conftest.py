"""The two clusters that tests of mirroring share."""

from tests.support.peers import unique
from tests.support.two_clusters import clusters

__all__ = ["clusters", "unique"]
