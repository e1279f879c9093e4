"""One run, or one part of it, against another."""
