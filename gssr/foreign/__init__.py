"""Metric files of other tools: each format is read into one series of rows, and written as an ordinary recording."""
