"""What a trace says: pure analyses of a Timeline, in whole nanoseconds. No file format, no terminal."""
