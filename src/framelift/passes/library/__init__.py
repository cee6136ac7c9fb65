"""The passes themselves. Importing this registers them, in the order in which added passes run."""

from framelift.passes.library import normalize as normalize  # isort: skip
from framelift.passes.library import kwargs as kwargs  # isort: skip
from framelift.passes.library import noop as noop  # isort: skip
from framelift.passes.library import relu as relu  # isort: skip
