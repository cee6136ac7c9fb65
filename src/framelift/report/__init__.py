"""Everything framelift tells about its work: one stream of typed events, and the readers of it."""
