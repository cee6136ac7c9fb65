"""Instances of classes written in Python, classes, modules, and what every object has."""
