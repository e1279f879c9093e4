"""Job: how well is the job using its GPUs, and what to do about it first."""
