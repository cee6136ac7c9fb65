"""Classes that the program makes, and what it asks about subclasses."""
