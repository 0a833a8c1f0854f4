"""Decisions for all: the only writer of the cluster's shape. Brokers follow the images that come of it."""
