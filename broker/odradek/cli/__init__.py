"""The command line: one thin file per verb over `client`, `log` and `server`."""
