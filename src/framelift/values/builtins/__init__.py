"""Python's built-in functions and types, called."""
