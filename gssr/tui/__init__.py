"""The live screen: a Textual app whose folders are what is seen on it."""
