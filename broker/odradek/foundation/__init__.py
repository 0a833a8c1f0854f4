"""Terms and tools that every layer shares: ids, errors, clock, tasks, limits, settings, metrics."""
