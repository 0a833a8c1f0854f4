"""Volumes: claims that grow, and StatefulSets that are made again for it."""
