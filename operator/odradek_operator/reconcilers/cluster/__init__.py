"""The kind Cluster: `facts` reads what there is, each concern decides on values alone, `reconciler` carries it out.

The concerns are the rooms `settings`, `zookeeper`, `rolling`, `scaling` and `storage`. What their steps found stands in
`status.findings`, and conditions and status are composed from it.
"""
