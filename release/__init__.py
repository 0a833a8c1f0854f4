"""How a version of Odradek is built, checked and prepared for upload; the command is `python -m release`."""
