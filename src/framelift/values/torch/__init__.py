"""Torch beside its tensors: transforms, modes, autograd functions, namespaces of operators."""
