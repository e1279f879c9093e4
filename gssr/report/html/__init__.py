"""The report as one HTML file that needs nothing else: no network, no other file, no script to be read."""
