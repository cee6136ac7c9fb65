"""`functools`: `partial`, `lru_cache`, `cmp_to_key`."""
