"""ZooKeeper's servers: their roll, and how the ensemble grows and shrinks."""
