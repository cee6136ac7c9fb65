"""The stream: who hears what, and what it costs."""

import contextvars
import dataclasses
import threading

import pytest

from framelift.report import stream
from framelift.report.events import EVENTS, CaptureStarted, Event, GraphBroke, GuardsBuilt, RanEagerly


def test_listener_hears_what_it_asked_for():
    heard = []
    with stream.listening(heard.append, RanEagerly):
        stream.emit(RanEagerly("f", "a"))
        stream.emit(CaptureStarted(0, "f", "file.py", 1))
    stream.emit(RanEagerly("f", "b"))
    assert [event.reason for event in heard] == ["a"]


def test_no_kinds_means_all():
    heard = []
    with stream.listening(heard.append):
        assert all(stream.wanted(kind) for kind in EVENTS)
        stream.emit(RanEagerly("f", "a"))
    assert len(heard) == 1


def test_subscriptions_end_one_by_one():
    heard = []
    first, second = stream.subscribe(heard.append, RanEagerly), stream.subscribe(heard.append, RanEagerly)
    stream.emit(RanEagerly("f", "a"))
    first()
    stream.emit(RanEagerly("f", "b"))
    second()
    stream.emit(RanEagerly("f", "c"))
    assert [event.reason for event in heard] == ["a", "a", "b"]


def test_dear_events_are_not_wanted_by_default():
    assert not stream.wanted(GuardsBuilt)
    with stream.listening(print, GuardsBuilt):
        assert stream.wanted(GuardsBuilt)
    assert not stream.wanted(GuardsBuilt)


def test_context_listeners_do_not_hear_other_threads():
    heard, everywhere = [], []
    stop = stream.subscribe(everywhere.append, RanEagerly)
    with stream.listening(heard.append, RanEagerly):
        thread = threading.Thread(target=stream.emit, args=(RanEagerly("f", "thread"),))
        thread.start()
        thread.join()
        contextvars.copy_context().run(stream.emit, RanEagerly("f", "copied context"))
    stop()
    assert [event.reason for event in heard] == ["copied context"]
    assert [event.reason for event in everywhere] == ["thread", "copied context"]


def test_subscribing_while_emitting_from_many_threads():
    heard = []
    stop = stream.subscribe(heard.append, GraphBroke)

    def work():
        for number in range(200):
            unsubscribe = stream.subscribe(lambda event: None, GraphBroke)
            stream.emit(GraphBroke(number, "FL0000", "test", "file.py", 1))
            unsubscribe()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop()
    assert len(heard) == 800


def test_capture_numbers_differ():
    assert len({stream.new_capture() for _ in range(100)}) == 100


def test_events_are_frozen_and_complete():
    assert set(EVENTS) == {
        kind
        for kind in vars(__import__("framelift.report.events", fromlist=["x"])).values()
        if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
    }
    for kind in EVENTS:
        assert dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen and hasattr(kind, "__slots__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        RanEagerly("f", "a").reason = "b"
