"""The version of Odradek, the only place that declares it: other texts have copies (`python -m release.version`)."""

__version__ = "0.1.0"
