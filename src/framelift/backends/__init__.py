"""Backends: what compiles a captured graph."""

from framelift.backends.registry import Backend, list_backends, lookup, register_backend

__all__ = ["Backend", "list_backends", "lookup", "register_backend"]
