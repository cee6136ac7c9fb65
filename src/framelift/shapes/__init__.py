"""Symbolic sizes and numbers: which inputs get them, torch's ShapeEnv, and its assumptions as guards."""
