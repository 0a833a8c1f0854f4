"""What the cluster is: the image every broker works from, the settings of topics, and their nodes in the registry."""
