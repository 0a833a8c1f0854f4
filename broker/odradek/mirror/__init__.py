"""One cluster mirrored to another: records with their partitions, offsets of groups, heartbeats."""
