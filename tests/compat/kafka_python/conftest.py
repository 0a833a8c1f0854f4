"""kafka-python calls what newer Pythons deprecate: its warnings are its own and fail no test of ours."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
