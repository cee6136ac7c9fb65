"""Functions, generators, coroutines, cells, frames, and functions in C."""
