"""Counting: what the samples of a window add up to, over time, over the GPUs, and over both."""
