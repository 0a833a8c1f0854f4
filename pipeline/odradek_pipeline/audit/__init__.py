"""The audit: what each tier counted, verdicts, watermarks and tilings as values; and what collects and shows them."""
