"""Whether passes did right: what a graph promises, the graph before and after, and which rewrite was wrong."""
