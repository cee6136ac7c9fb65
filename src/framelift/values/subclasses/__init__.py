"""Instances of the program's classes that inherit from built-in types or from tensors."""
