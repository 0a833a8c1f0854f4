"""Users: what brokers know of them, and the Secrets that clients connect by."""
