"""Settings: process defaults, contexts, and what they refuse."""

import contextvars
import os
import subprocess
import sys
import threading

import pytest

import framelift
from framelift import config


def test_defaults_and_docs():
    assert set(config.SETTINGS) <= set(dir(config))
    assert all(setting.meaning for setting in config.SETTINGS.values())
    assert framelift.config is config


def test_patch_is_undone_and_nests():
    outside = config.recompile_limit
    with config.patch(recompile_limit=3):
        with config.patch(recompile_limit=4, full_traceback=True):
            assert (config.recompile_limit, config.full_traceback) == (4, True)
        assert (config.recompile_limit, config.full_traceback) == (3, False)
    assert config.recompile_limit == outside


def test_patch_as_decorator():
    @config.patch(recompile_limit=5)
    def read():
        return config.recompile_limit

    assert read() == 5 and config.recompile_limit != 5


def test_assignment_sets_the_process_default():
    before = config.recompile_limit
    try:
        config.recompile_limit = 77
        seen = []
        thread = threading.Thread(target=lambda: seen.append(config.recompile_limit))
        thread.start()
        thread.join()
        assert seen == [77] and config.current()["recompile_limit"] == 77
    finally:
        config.recompile_limit = before


def test_assignment_inside_a_patch_ends_with_it():
    before = config.recompile_limit
    with config.patch(recompile_limit=3):
        config.recompile_limit = 9
        assert config.recompile_limit == 9
    assert config.recompile_limit == before


def test_patch_is_not_seen_by_other_threads_but_by_copied_contexts():
    before, seen = config.recompile_limit, []
    with config.patch(recompile_limit=3):
        thread = threading.Thread(target=lambda: seen.append(config.recompile_limit))
        thread.start()
        thread.join()
        seen.append(contextvars.copy_context().run(lambda: config.recompile_limit))
    assert seen == [before, 3]


def test_unknown_names_and_wrong_types():
    with pytest.raises(AttributeError, match="unknown setting 'strct': did you mean 'strict'"):
        config.strct
    with pytest.raises(AttributeError, match="did you mean 'strict'"):
        config.strct = True
    with pytest.raises(AttributeError, match="unknown setting 'nope'"):
        with config.patch(nope=1):
            pass
    with pytest.raises(TypeError, match="config.strict is a bool, got 1"):
        config.strict = 1
    with pytest.raises(TypeError, match="config.recompile_limit is an int, got True"):
        config.recompile_limit = True
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del config.strict


def read_in_new_process(**environment):
    program = "from framelift import config; print(config.strict, config.check, config.recompile_limit)"
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path), **environment}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    return done.stdout.split() or done.stderr


def test_environment():
    read = read_in_new_process(FRAMELIFT_STRICT="1", FRAMELIFT_CHECK="off", FRAMELIFT_RECOMPILE_LIMIT="12")
    assert read == ["True", "False", "12"]
    assert "unknown value of FRAMELIFT_STRICT 'ture': did you mean 'true'?" in read_in_new_process(
        FRAMELIFT_STRICT="ture"
    )
    assert "a whole number is needed" in read_in_new_process(FRAMELIFT_RECOMPILE_LIMIT="many")
