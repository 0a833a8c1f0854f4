"""The command line: thin files of verbs, in a folder for each noun, over `client`, `storage` and `server`."""
