"""Many hosts in one view: the commands that reach them, the lines that they send, and the process that records these."""
