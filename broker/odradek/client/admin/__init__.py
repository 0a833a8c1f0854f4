"""Creates, describes and changes topics, configs, groups and logs; results are frozen values."""
