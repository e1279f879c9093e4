"""A rank's live block: its newest state in one small file, for whoever watches many ranks."""
