"""The sampler, a small process of its own beside the job, and what it is told."""
