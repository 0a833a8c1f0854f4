"""The kind Cluster: `facts` reads what there is, each concern decides on values alone, `reconciler` carries it out.

The concerns are `addresses`, `settings_plan`, `rolling`, `ensemble`, `storage` and `scaling`. What their steps found
stands in `findings`, and `conditions` and `status` are composed from it.
"""
