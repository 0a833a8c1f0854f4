"""What the cluster is: the registry that holds its truth, the image every broker works from, the settings of topics."""
