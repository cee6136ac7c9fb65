"""The standard library: one module or folder per library module, under its name."""
