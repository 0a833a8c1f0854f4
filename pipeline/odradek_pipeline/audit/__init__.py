"""The audit as values: what tiers counted, verdicts, watermarks, tilings, and their form as JSON. No Spark, no I/O."""
