"""One training loop for every method, its checkpoints and schedules."""
