"""The interpreter: code bound to handlers, frames and their arguments, and how a frame is left between instructions."""
