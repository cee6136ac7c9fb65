"""The helpers every test of framelift goes through."""

from tests.helpers.canary import Canary, watched
from tests.helpers.check import Checked, check
from tests.helpers.record import Record
from tests.helpers.same import Difference, assert_same
from tests.helpers.transcript import transcript

__all__ = ["Canary", "Checked", "Difference", "Record", "assert_same", "check", "transcript", "watched"]
