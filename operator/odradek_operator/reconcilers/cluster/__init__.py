"""The kind Cluster: `facts` reads what there is, each concern decides on values alone, `reconciler` carries it out.

The concerns are `addresses`, `settings`, `rolling`, `storage`, `scaling` and `status`.
"""
