"""HTTP: the API for everyone else."""
