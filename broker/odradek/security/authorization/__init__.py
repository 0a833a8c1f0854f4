"""Access control lists, and Kafka's decisions by them. Pure: no registry, no protocol, no I/O."""
