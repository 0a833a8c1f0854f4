"""The shape of the cluster: its image, the registry that keeps it, and the controller that changes it."""
