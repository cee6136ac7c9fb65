# Every target sets itself up: a virtual environment per interpreter under .venv/, pinned by constraints.txt.
#
#   make demo                  see a function and a module lifted
#   make test                  the whole test suite       (make test PYTHON=python3.12 for another interpreter,
#                              make test TORCH=2.15.0 for another torch; so with every target)
#   make lint                  ruff, clang-format, mypy, import-linter
#   make native-tests          the tests that need no torch, on every supported interpreter found
#   make bench                 capture time and call overhead against torch.compile   (make bench ARGS=dynamic)
#   make zoo                   what is captured of 125 models    (make zoo ARGS="--torch --jobs 2 --names bloom")
#   make cpython-tests         CPython's own tests, lifted        (make cpython-tests ARGS="--modules dict list -v")
#   make torch-tests           torch's own databases, lifted           (make torch-tests ARGS="--only op_db/masked -v")
#   make fuzz                  random programs, lifted and compared   (make fuzz ARGS="--programs 10000 --seed 1")
#   make asan                  the native tests under AddressSanitizer and UndefinedBehaviorSanitizer

PYTHON ?= $(shell for p in python3.11 python3; do if $$p -c '' >/dev/null 2>&1; then echo $$p; break; fi; done)
# A python3.X that a version manager keeps may not start under its bare name.
override PYTHON := $(shell scripts/find_python $(PYTHON))
MINOR  := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# Every torch but that of constraints.txt has an environment of its own, and takes the setuptools it asks for (2.11: <82).
PINNED := $(shell sed -n 's/^torch==//p' constraints.txt)
TORCH  ?= $(PINNED)
VENV   := .venv/$(MINOR)$(if $(filter-out $(PINNED),$(TORCH)),-torch$(TORCH))
PY     := $(VENV)/bin/python
JOBS   ?= auto
ARGS   ?=

SOURCES := $(wildcard setup.py src/framelift/native/*.[ch] src/framelift/native/*/*.[ch])
PIP     := -m pip --disable-pip-version-check install --quiet -c $(VENV)/constraints.txt

.PHONY: demo test lint format native-tests cpython-tests torch-tests fuzz bench zoo asan venv clean

demo: venv
	@$(PY) examples/demo.py $(ARGS)

test: venv
	$(PY) -m pytest -n $(JOBS) $(ARGS)

lint: venv
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) scripts/clang_format.py --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format: venv
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(PY) scripts/clang_format.py

native-tests:
	@scripts/native_tests $(ARGS)

cpython-tests: venv
	$(PY) -m tests.cpython $(ARGS)

torch-tests: venv
	$(PY) -m tests.torch_databases $(ARGS)

fuzz: venv
	$(PY) -m tests.fuzz $(ARGS)

bench: venv $(VENV)/zoo
	$(PY) -m benchmarks.run $(ARGS)

zoo: venv $(VENV)/zoo
	$(PY) -m benchmarks.zoo $(ARGS)

asan: venv
	scripts/asan $(ARGS)

venv: $(VENV)/built

$(VENV)/installed: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	    || { echo "framelift needs Python 3.11, 3.12 or 3.13; $(PYTHON) is $(MINOR). Use make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	sed $(if $(filter-out $(PINNED),$(TORCH)),-e '/^setuptools==/d') -e 's/^torch==.*/torch==$(TORCH)/' \
	    constraints.txt >$(VENV)/constraints.txt
	$(PY) $(PIP) setuptools wheel
	$(PY) $(PIP) torch==$(TORCH)
	$(PY) $(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

$(VENV)/zoo: $(VENV)/installed
	$(PY) $(PIP) --no-build-isolation -e '.[zoo]'
	@touch $@

# The C extension is built in place, beside its sources; touching one of them builds it again.
$(VENV)/built: $(VENV)/installed $(SOURCES)
	$(PY) setup.py --quiet build_ext --inplace
	@touch $@

clean:
	rm -rf build dist .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src -name '*.so' -delete
	find . -name __pycache__ -prune -exec rm -rf {} +
