"""Tensors: operations on them, sizes, numbers read from them, leaves, text that shows them."""
