"""Pictures of an analysis as PNG, drawn with matplotlib."""
