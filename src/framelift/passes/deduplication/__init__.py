"""Layers that repeat, as one subgraph that is called many times."""
