"""What verbs share: options, output, connections, completion of names."""
