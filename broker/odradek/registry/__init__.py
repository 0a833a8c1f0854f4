"""The cluster's shared state: a tree of versioned nodes, kept by ZooKeeper, by one SQLite file or in memory."""
