"""Arrays of NumPy, as views of tensors of the graph."""
