"""What is known about a graph: effects, memory, modes, gradients and what is saved for them, order, groups, pieces."""
