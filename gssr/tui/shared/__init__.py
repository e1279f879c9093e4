"""Widgets that several screens consist of."""
