"""Whether what was captured is used, told by counters, `explain()` and logs."""

from __future__ import annotations

import pytest
import torch

import framelift


def prefix(x, n):
    return x[: n.item()] * 2


def test_counters() -> None:
    framelift.reset()
    lifted = framelift.compile(prefix, backend="eager")
    x = torch.ones(6)
    for count in (3, 2, 7, 4, 9):  # beyond the tensor Python takes what there is
        assert torch.equal(lifted(x, torch.tensor(count)), prefix(x, torch.tensor(count)))
    counts = framelift.counters()
    assert counts.failed_checks["prefix"] >= 1  # an entry whose check failed is dropped, and its uses with it
    used = []
    for _ in range(3):
        assert torch.equal(lifted(x, torch.tensor(2)), prefix(x, torch.tensor(2)))
        counts = framelift.counters()
        used.append(sum(entry.uses for entry in counts.entries))
    assert used[2] - used[1] == len(counts.entries) >= 1
    assert all("prefix (" in entry.function and "test_entry_uses.py:" in entry.function for entry in counts.entries)
    assert "failed_checks" in str(counts) and str(counts.entries[0]) in str(counts)
    framelift.reset()
    assert framelift.counters().entries == () and not framelift.counters().failed_checks


def test_explain() -> None:
    x = torch.ones(6)
    found = framelift.explain(prefix)(x, torch.tensor(3))
    (entry,) = found.entries
    assert (entry.uses, entry.failed_checks, found.failed_checks) == (1, 0, ())
    assert str(entry).endswith("used once") and str(entry) in str(found)


def test_log(capsys: pytest.CaptureFixture[str]) -> None:
    lifted = framelift.compile(prefix, backend="eager")
    x = torch.ones(6)
    lifted(x, torch.tensor(3))
    framelift.set_logs("checks")
    lifted(x, torch.tensor(8))
    assert "run in vain, not so:" in capsys.readouterr().err
