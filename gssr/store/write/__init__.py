"""Writing recordings, beside a job or whole: committed as they grow."""
