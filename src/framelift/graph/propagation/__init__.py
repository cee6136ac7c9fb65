"""What operations make of their arguments' metadata: on fake tensors, from the memo, or worked out by short cuts."""
