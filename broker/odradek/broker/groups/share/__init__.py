"""Share groups (KIP-932): members that share the records of partitions, as a queue."""
