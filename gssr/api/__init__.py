"""Recordings from Python and notebooks, as pandas objects. See docs/python.md; ``import gssr`` has all of it."""
