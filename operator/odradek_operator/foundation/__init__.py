"""Words and tools that every layer of the operator shares: keys, work queue, conditions, metrics, settings."""
