"""The C half of framelift: lifted callables, tables of entries, guard trees, the frame hook.

>>> from framelift.native import _core
>>> _core.suspended
<class 'framelift.native._core.suspended'>
"""

from framelift.native.selftest import core, run_selftest

__all__ = ["core"]

run_selftest()
