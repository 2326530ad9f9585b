# One word for each thing a contributor does. Every target works from a clean clone: it makes what it needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
PEERS := .venv-peers
WHEELS := build/wheels
PY := $(VENV)/bin/python
CARGO := cargo
MANIFEST := --manifest-path kernel/Cargo.toml --locked
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv build check rust unit test wheel peers interop engines torch browser nginx servers remote-long demo bench bench-remote instructions faults-long together-long fuzz sanitize documents docs fixtures clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## ?/  make \1	/' | expand -t 18

venv: $(VENV)/.installed  ## the locked development environment, in .venv
$(VENV)/.installed: requirements/dev.lock
	python=$$(tools/find-python 3.11) && "$$python" -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --require-hashes --requirement requirements/dev.lock
	touch $@

build: $(VENV)/.installed  ## compile the kernel and install terrazzo into .venv, editable
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(PY) -m maturin develop --release --locked --quiet

check: build  ## linters and types, Python and Rust, and licences
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(CARGO) fmt --manifest-path kernel/Cargo.toml --check
	PYO3_PYTHON=$(CURDIR)/$(PY) $(CARGO) clippy $(MANIFEST) --all-targets --quiet -- -D warnings
	$(PY) -m tools.licences $(wildcard .venv-*)

rust: $(VENV)/.installed  ## the kernel's own tests
	PYO3_PYTHON=$(CURDIR)/$(PY) $(CARGO) test $(MANIFEST)

unit: build  ## the Python tests
	$(PY) -m pytest

test: check unit rust instructions interop  ## everything that has to hold before a change lands

wheel: $(VENV)/.installed  ## a wheel for this platform, any Python from 3.11, in build/wheels
	rm -rf $(WHEELS)
	$(PY) -m maturin build --release --locked --quiet --compatibility linux --out $(WHEELS)

peers: wheel  ## the other Zarr libraries, pinned, in .venv-peers, with our wheel beside them
	tools/peers $(PEERS) $(WHEELS)

interop: wheel  ## read what the other libraries write, and the other way round
	tools/peers $(PEERS) $(WHEELS) -m pytest tests/interop

engines: wheel  ## grid points with Ray and with Lithops, open them with xdggs, in .venv-engines
	python=$$(tools/find-python 3.11) && "$$python" -m venv --clear .venv-engines
	.venv-engines/bin/python -m pip install --quiet --require-hashes --requirement requirements/engines.lock
	.venv-engines/bin/python -m pip install --quiet --no-deps --force-reinstall $(WHEELS)/terrazzo-*.whl
	PATH=$(CURDIR)/.venv-engines/bin:$$PATH .venv-engines/bin/python -m pytest tests/gridding/test_clusters.py tests/gridding/test_xdggs.py

torch: wheel  ## training loops with PyTorch's DataLoader, in build/torch; Linux on x86-64; gets 2 GB, most of it NVIDIA's libraries
	cmp -s requirements/torch.lock build/torch/.installed || { \
		python=$$(tools/find-python 3.11) && "$$python" -m venv --clear build/torch && \
		build/torch/bin/python -m pip install --quiet --no-deps --require-hashes --requirement requirements/torch.lock && \
		cp requirements/torch.lock build/torch/.installed; }
	build/torch/bin/python -m pip install --quiet --no-deps --force-reinstall $(WHEELS)/terrazzo-*.whl
	build/torch/bin/python -m pytest tests/training

browser: build  ## zarrita.js in headless Chromium reads what `terrazzo serve` serves; gets Chromium and npm packages
	tools/browser
	$(PY) -m pytest tests/browser

nginx: build  ## read from nginx: ranges, redirects, and servers that do less
	tools/nginx
	TEST_SERVERS=nginx $(PY) -m pytest tests/remote/test_nginx.py

servers: build  ## remote stores on Ceph's radosgw, Azurite, s3rver and moto; gets Debian's and npm's packages for that
	tools/servers
	TEST_SERVERS=moto,radosgw,azurite,s3rver $(PY) -m pytest tests/remote tests/stores/test_remote.py

remote-long: build  ## search remote stores long for lost writes and for what is left behind; ledgers in tests/remote/ledgers
	tools/servers
	$(PY) -m tests.remote.long soak --server moto --seed 1
	$(PY) -m tests.remote.long soak --server radosgw --seed 2
	$(PY) -m tests.remote.long reads
	LISTED_KEYS=1000000 $(PY) -m pytest tests/remote/test_attacks.py -k very_many_keys

demo: build  ## a real volume: write shards, look at them, read them back
	$(PY) examples/demo.py

bench: wheel  ## measure beside the other libraries; BENCH="--quick" and the like say what
	tools/peers $(PEERS) $(WHEELS) bench/run.py $(BENCH)

bench-remote: wheel  ## the same over a network that takes 20 ms for each request
	tools/peers $(PEERS) $(WHEELS) bench/remote.py $(BENCH)

instructions: $(VENV)/.installed  ## count the kernel's instructions, where this toolchain's counts are committed
	$(PY) bench/instructions.py

faults-long: build  ## search long for lost writes, torn reads and damage; ledgers in tests/faults/ledgers
	$(PY) -m tests.faults.long power --count 50000
	$(PY) -m tests.faults.long reads --count 100000
	$(PY) -m tests.faults.long mutations --count 100000
	$(PY) -m tests.faults.long writers --count 16000
	$(PY) -m tests.faults.long machine --count 300
	$(PY) -m tests.faults.long merges --count 10000
	$(PY) -m tests.faults.long appends --count 3000
	$(PY) -m tests.faults.long flips --count 10000
	$(PY) -m tests.faults.long inventories --count 1000000

together-long: wheel  ## the same for writers beside tensorstore's
	tools/peers $(PEERS) $(WHEELS) -m tests.faults.long together --count 200

fuzz:  ## fuzz the kernel's rooms under AddressSanitizer; needs cargo-fuzz and a nightly compiler; ledger in kernel/fuzz
	tools/fuzz --seconds 300

sanitize: $(VENV)/.installed  ## the kernel's tests under AddressSanitizer; needs a nightly compiler and gcc
	tools/sanitize

documents: build  ## open documents changed at random, long; only errors of our own may come of it
	$(PY) -m tests.faults.documents --count 100000 --seed 2

docs: build  ## make the pages of what is supported and of licences anew, and run every example of the pages in docs/
	$(PY) -m tools.support
	$(PY) -m tools.licences --write
	$(PY) -m pytest tests/test_pages.py

fixtures: wheel  ## write tests/fixtures/data again, with the pinned writers (its bytes are committed)
	tools/fixtures $(PEERS) $(WHEELS)

clean:  ## remove environments, builds and caches
	rm -rf $(VENV) .venv-* build kernel/target target demo-output src/terrazzo/*.so
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
