"""What the runs of many recordings add up to."""
