"""Client quotas without I/O: their keys, which one counts, rates over small windows, and how long to throttle."""
