"""One file per API: decode, authorise, one call, answer. `table` says which file serves which API."""
