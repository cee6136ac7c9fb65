"""Lists, tuples, dicts, sets, deques, their views and iterators."""
