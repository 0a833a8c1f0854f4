"""ConsumerGroup: what is expected of a group, what is to be done to its offsets, and how far behind it is."""
