"""The kind Cluster: `facts` reads what there is, each concern decides on values alone, `reconciler` carries it out.

The concerns are the rooms `settings`, `zookeeper`, `storage`, `rolling` and `scaling`, and none imports one that is
named after it. `steadiness` and `restart_words` are for all of them. What their steps found stands in
`status.findings`, and conditions and status are composed from it.
"""
