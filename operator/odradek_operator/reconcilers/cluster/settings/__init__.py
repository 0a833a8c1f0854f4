"""What brokers are started with: image, settings, addresses, certificates."""
