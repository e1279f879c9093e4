"""Reading recordings, whatever their writers left: files, their tables, windows, and runs that lie in many files."""
