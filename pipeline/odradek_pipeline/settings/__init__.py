"""Declared settings: of commands, from flags and YAML files, and of `format("odradek")`, from options."""
