"""A hostile hour: one attack after the other on a cluster that honest clients use all the while (`__main__.py`)."""
