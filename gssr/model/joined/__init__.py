"""Traces laid over the recording of the same run: whose GPUs they show, by which clock, and what they say of its dips."""
