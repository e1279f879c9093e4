"""Calls: what took the time."""
