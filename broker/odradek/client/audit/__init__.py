"""Counts of acknowledged records that a producer publishes, so that every later tier can be compared with them."""
