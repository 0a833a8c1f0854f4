"""The parts that every coordinator shares: an internal topic's partitions in memory, their writer and their timers."""
