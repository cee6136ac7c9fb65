"""Tensors and torch's state as the C core reads them, without torch's headers."""
