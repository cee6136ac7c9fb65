"""Measurements of framelift beside torch.compile. `make bench` runs them all."""
