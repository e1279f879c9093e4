"""Compare: was another run better."""
