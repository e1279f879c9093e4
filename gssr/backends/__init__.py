"""Where samples come from: one table of backends, opened by name. See ``base`` for the interface."""
