"""The page of a table's runs: values in, one HTML file out. Nothing here reads a table or a log."""
