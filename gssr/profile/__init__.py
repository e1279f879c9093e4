"""What runs beside a job: the supervisor, the workload and the sampler."""
