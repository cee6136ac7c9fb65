"""Python's standard library around operations of torch."""

import array
import collections
import contextlib
import fractions
import functools
import heapq
import inspect
import io
import itertools
import json
import logging
import math
import os
import queue
import random
import re
import string
import struct
import sys
import threading
import time
import warnings

import torch

from tests.kinds.program import Programs

program = Programs()

LOCK = threading.Lock()
EVENT = threading.Event()
LOG = logging.getLogger("orders")

X = lambda *s: torch.randn(*s)


@program.built
def string_io():
    def f(x):
        out = io.StringIO()
        out.write("a")
        out.write(str(x.shape[0]))
        print("b", file=out)
        return x + 1, out.getvalue()

    return f, (X(3),)


@program.built
def string_io_read():
    def f(x):
        out = io.StringIO("one\ntwo\n")
        return x + len(out.readline()), [line.strip() for line in out]

    return f, (X(3),)


@program.built
def bytes_io():
    def f(x):
        b = io.BytesIO()
        b.write(b"abc")
        b.seek(0)
        return x + len(b.read()), b.getvalue()

    return f, (X(3),)


@program.built
def bytearray_build():
    def f(x):
        b = bytearray(b"ab")
        b.append(99)
        b.extend(b"d")
        b[0] = 65
        return x + len(b), bytes(b), b

    return f, (X(3),)


@program.built
def redirect_stdout():
    def f(x):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print("hello")
        return x + 1, out.getvalue()

    return f, (X(3),)


@program.built
def lock_with():
    def f(x):
        with LOCK:
            y = x + 1
        return y * 2

    return f, (X(3),)


@program.built
def lock_inside():
    def f(x):
        lock = threading.Lock()
        with lock:
            y = x + 1
        return y * 2

    return f, (X(3),)


@program.built
def rlock_object():
    class C:
        def __init__(self):
            self.lock = contextlib.nullcontext()
            self.n = 0

        def run(self, x):
            with self.lock:
                self.n += 1
                return x + self.n

    c = C()
    return (lambda x: c.run(x)), (X(3),)


@program.built
def time_time():
    def f(x):
        t = time.time()
        y = x + 1
        return y, t > 0, time.time() >= t

    return f, (X(3),)


@program.built
def perf_counter():
    def f(x):
        t = time.perf_counter()
        y = x.sin()
        return y, {"t": time.perf_counter() >= t}

    return f, (X(3),)


@program.built
def time_stored():
    class C:
        pass

    c = C()
    c.t = []

    def f(x):
        t = time.monotonic()
        y = x.sin()
        c.t.append(time.monotonic() >= t)
        return y

    return f, (X(3),)


@program.built
def perf_counter_ns():
    return (lambda x: (x + 1, time.perf_counter_ns() > 0, time.time_ns() > 0)), (X(3),)


@program.built
def time_sleep():
    def f(x):
        time.sleep(0)
        return x + 1

    return f, (X(3),)


@program.built
def time_fold_to_tensor():
    return (lambda x: (x + 1).shape[0] + time.time() * 0), (X(3),)


@program.built
def catch_warnings():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("x")
            y = x.sin()
        return y + 1

    return f, (X(3),)


@program.built
def catch_warnings_record():
    def f(x):
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            warnings.warn("hello")
            y = x.sin()
        return y, len(w), str(w[0].message)

    return f, (X(3),)


@program.built
def filter_in_function():
    def f(x):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning)
            return torch.nn.functional.softmax(x, dim=0)

    return f, (X(3),)


@program.built
def return_types_topk():
    def f(x):
        r = torch.topk(x, 2)
        return r, r.values + 1, type(r).__name__

    return f, (X(5),)


@program.built
def return_types_max():
    def f(x):
        r = x.max(dim=0)
        v, i = r
        return r, v * 2, isinstance(r, tuple), r[1]

    return f, (X(5, 2),)


@program.built
def return_types_svd():
    return (lambda x: torch.linalg.svd(x).S), (X(3, 3),)


@program.built
def itertools_returned_chain():
    return (lambda x: list(itertools.chain([x], [x + 1]))), (X(3),)


@program.built
def itertools_objects():
    def f(x):
        return x + 1, itertools.count(3), itertools.cycle([1, 2]), itertools.repeat(2, 3)

    return f, (X(3),)


@program.built
def itertools_product():
    def f(x):
        return [x * a + b for a, b in itertools.product([1, 2], [3, 4])], list(itertools.accumulate([1, 2, 3]))

    return f, (X(3),)


@program.built
def math_things():
    return (lambda x: x * math.sqrt(x.shape[0]) + math.prod(x.shape) + math.inf * 0 if False else x * math.sqrt(3)), (
        X(3),
    )


@program.built
def struct_pack():
    return (lambda x: x + struct.unpack("<i", struct.pack("<i", 7))[0]), (X(3),)


@program.built
def array_module():
    def f(x):
        a = array.array("f", [1.0, 2.0])
        a.append(3.0)
        return x + a[2], len(a)

    return f, (X(3),)


@program.built
def os_environ():
    def f(x):
        return x + (1 if os.environ.get("ORDERS_UNSET") is None else 2)

    return f, (X(3),)


@program.built
def os_path():
    return (lambda x: (x + 1, os.path.join("a", "b"), os.getpid() > 0)), (X(3),)


@program.built
def queue_use():
    def f(x):
        q = collections.deque()
        q.append(x)
        q.append(x + 1)
        return q.popleft() * q.pop()

    return f, (X(3),)


@program.built
def queue_module():
    def f(x):
        q = queue.Queue()
        q.put(x)
        q.put(x + 1)
        return q.get() * 2, q.qsize()

    return f, (X(3),)


@program.built
def heap():

    def f(x):
        h = [3, 1, 2]
        heapq.heapify(h)
        return x * heapq.heappop(h), h

    return f, (X(3),)


@program.built
def json_dumps():
    return (lambda x: (x + 1, json.dumps({"a": list(x.shape)}), json.loads("[1, 2]"))), (X(3),)


@program.built
def regex():
    return (lambda x: x + len(re.findall("a+", "aabaa"))), (X(3),)


@program.built
def logging_call():

    def f(x):
        LOG.debug("x %s", x.shape)
        return x + 1

    return f, (X(3),)


@program.built
def string_template():
    return (lambda x: (x + 1, string.Template("$a b").substitute(a=1), "{:>5}".format(x.shape[0]))), (X(3),)


@program.built
def fraction():

    return (lambda x: x * float(fractions.Fraction(1, 3) + 1)), (X(3),)


@program.built
def current_thread():
    return (lambda x: (x + 1, threading.current_thread().name, threading.get_ident() > 0)), (X(3),)


@program.built
def event_object():

    def f(x):
        if not EVENT.is_set():
            EVENT.set()
        return x + 1

    return f, (X(3),)


@program.built
def cached_property():
    class C:
        @functools.cached_property
        def k(self):
            return 3

    def f(x):
        c = C()
        return x * c.k + c.k

    return f, (X(3),)


@program.built
def exit_stack():
    def f(x):
        with contextlib.ExitStack() as s:
            s.enter_context(torch.no_grad())
            s.callback(lambda: None)
            y = x * 2
        return y

    return f, (torch.randn(3, requires_grad=True),)


@program.built
def traceback_format():
    def f(x):
        try:
            raise ValueError("a")
        except ValueError as e:
            return x + 1, str(e), type(e).__name__

    return f, (X(3),)


@program.built
def inspect_signature():

    def g(a, b=2): ...

    return (lambda x: x + len(inspect.signature(g).parameters)), (X(3),)


@program.built
def random_module():
    def f(x):
        return x * random.random() + random.randint(1, 5)

    return f, (X(3),)


@program.built
def gc_and_sys():
    return (lambda x: (x + 1, sys.version_info >= (3, 8), sys.platform, sys.maxsize)), (X(3),)


@program.built
def tempfile_io():
    def f(x):
        b = io.BytesIO()
        torch.save({"a": 1}, b)
        b.seek(0)
        return x + torch.load(b)["a"]

    return f, (X(3),)


@program.built
def memoryview_use():
    return (lambda x: x + sum(memoryview(b"abc"))), (X(3),)


@program.built
def timer_context():
    class Timer:
        def __enter__(self):
            self.t = time.perf_counter()
            return self

        def __exit__(self, *a):
            self.d = time.perf_counter() - self.t

    def f(x):
        with Timer() as t:
            y = x.sin()
        return y * 2

    return f, (X(3),)


@program.built
def stdout_write():
    def f(x):
        sys.stdout.write("hello\n")
        sys.stdout.flush()
        return x + 1

    return f, (X(3),)
