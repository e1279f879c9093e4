"""Recordings as files of other kinds."""
