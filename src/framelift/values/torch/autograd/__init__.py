"""Values of `torch.autograd`: its functions, backward, hooks."""
