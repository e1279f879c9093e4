"""The recording: a plain SQLite file. Writing imports the standard library only; reading imports numpy."""
