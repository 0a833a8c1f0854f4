"""`python -m odradek_operator` is the command `odradek-operator`."""

from odradek_operator.main.cli import main

if __name__ == "__main__":
    main()
