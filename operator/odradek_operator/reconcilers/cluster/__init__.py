"""The kind Cluster: what is there is read (`facts`), each concern decides on values alone (`addresses`, `settings`,
`rolling`, `storage`, `scaling`, `status`), and `reconciler` carries it out step by step.
"""
