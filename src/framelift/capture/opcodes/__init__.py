"""What each instruction means. To import this registers all handlers."""

from framelift.capture.opcodes import class_bodies, common, containers, flow, match

__all__ = ["class_bodies", "common", "containers", "flow", "match"]
