"""Why: what keeps it from being saturated."""
