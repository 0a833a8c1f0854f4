"""The cluster: the image that every broker uses, the settings of topics, and their nodes in the registry."""
