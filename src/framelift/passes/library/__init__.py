"""The passes themselves. Importing this registers them, in the order in which added passes run."""

from framelift.passes.library import normalize as normalize  # isort: skip
from framelift.passes.library import kwargs as kwargs  # isort: skip
from framelift.passes.library import noop as noop  # isort: skip
from framelift.passes.library import relu as relu  # isort: skip
from framelift.passes.library import reassemble as reassemble  # isort: skip
from framelift.passes.library import concat as concat  # isort: skip
from framelift.passes.library import reshape as reshape  # isort: skip
from framelift.passes.library import splits as splits  # isort: skip
from framelift.passes.library import linear as linear  # isort: skip
from framelift.passes.library import split_cat as split_cat  # isort: skip
from framelift.passes.library import batch as batch  # isort: skip
from framelift.passes.library import rewritten as rewritten  # isort: skip
from framelift.passes.library import interactions as interactions  # isort: skip
from framelift.passes.library import attention as attention  # isort: skip
