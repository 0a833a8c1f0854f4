"""Produce: records from clients into partitions. `handler` has the way of a request, the others its parts."""
