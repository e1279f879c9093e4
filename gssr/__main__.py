"""``python -m gssr``."""

from gssr.cli import run

run()
