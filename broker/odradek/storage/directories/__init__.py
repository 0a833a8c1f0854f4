"""Which log directory holds what, and how full, failed and new ones are treated."""
