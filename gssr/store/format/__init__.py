"""What a recording looks like: its tables, the blobs in them, and what they may hold."""
