"""Traces of other tools, each read into one neutral form: a Timeline."""
