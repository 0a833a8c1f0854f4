"""One partition on disk: segments, indexes, recovery, retention; and all partitions of a broker's directories."""
