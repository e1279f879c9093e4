"""Following a run that grows: one look after another, each a frame that never changes."""
