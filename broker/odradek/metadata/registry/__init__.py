"""The cluster's shared state: a tree of versioned nodes in ZooKeeper, in one SQLite file or in memory."""
