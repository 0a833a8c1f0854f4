"""How many brokers there are, how their partitions move, and how their pods spread over nodes."""
