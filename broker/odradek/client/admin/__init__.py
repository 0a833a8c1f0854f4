"""Making, describing and changing topics, configs, groups and logs; results are frozen values."""
