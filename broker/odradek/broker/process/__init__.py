"""One broker process: its parts, built and joined, alone or in a cluster."""
