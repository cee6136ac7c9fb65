"""What is asked of finished graphs: what they write and share, what their gradients depend on."""
