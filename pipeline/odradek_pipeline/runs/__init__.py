"""Runs as values: ranges of offsets, what an output holds, plans, and their form as JSON. No Spark, no I/O."""
