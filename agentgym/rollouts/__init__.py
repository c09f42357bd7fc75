"""Run episodes, many at once; write, read and replay their trajectories."""
