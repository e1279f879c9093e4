"""What rules and phases look at: a job's GPUs and nodes over time, gathered once."""
