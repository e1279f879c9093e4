"""Pure arithmetic on what a recording holds: arrays in, dataclasses out; no SQL, no terminal."""
