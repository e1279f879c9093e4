"""What stands out in a run before anybody asks why: its phases, its dips, GPUs that differ, gaps in the data."""
