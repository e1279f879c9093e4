"""Time: when was it not used."""
