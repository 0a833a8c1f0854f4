"""Log compaction: rewrites closed segments so that of each key only the newest record stays."""
