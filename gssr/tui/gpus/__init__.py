"""GPUs: which of them differ, and in what."""
