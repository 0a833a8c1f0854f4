"""The operator's process and its command line: kopf, the Lease, probes, and commands that run once."""
