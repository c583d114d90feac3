# sereno: a thin face over CMake. `make help` lists the targets.
MAKEFLAGS += --no-print-directory
BUILD ?= build
PROMPT ?= Explain in two sentences why the sky is blue.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
CMAKE_FLAGS ?=
ifeq ($(CI),true)
override CMAKE_FLAGS += -DSERENO_WERROR=ON
endif

export PROMPT # as it is, whatever characters it holds

.PHONY: all run test lint format install clean help setup model bench-peers bench-decode-peers bench-corun \
  bench-corun-quick
.DEFAULT_GOAL := all

all: setup
	@cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS) > $(BUILD).cmake.log 2>&1 || { cat $(BUILD).cmake.log; exit 1; }
	@rm -f $(BUILD).cmake.log
	@cmake --build $(BUILD) -j $(JOBS) $(TARGET)

# Installs what is missing to build and test; says what it does.
setup:
	@tools/setup build

# Fetches the default model unless it is there. Tests go on without it, except in CI.
model: setup
	@tools/get-model smollm2-135m > /dev/null || [ "$$CI" != true ]

run: TARGET = --target sereno
run: all
	@tools/get-model smollm2-135m > /dev/null
	@$(BUILD)/sereno run -p "$$PROMPT"

test: all model
	@tests/run $(BUILD)

# The same passes by sereno and by llama.cpp. PEERS: options of tools/peers/compare.py.
bench-peers: all
	@tools/peers/compare.py --build $(BUILD) $(PEERS)

# Whole answers, with speculation. PEERS: options of tools/peers/compare_decode.py.
bench-decode-peers: all
	@tools/peers/compare_decode.py --build $(BUILD) $(PEERS)

# What a foreground and an LLM do to each other; goes on where it was stopped. CORUN: options of compare_corun.py.
bench-corun: all
	@tools/peers/compare_corun.py --build $(BUILD) $(CORUN)

# The same in two minutes.
bench-corun-quick: all
	@tools/peers/compare_corun.py quick --build $(BUILD) $(CORUN)

lint: all
	@tools/setup lint
	@tools/lint $(BUILD)

format:
	@tools/setup lint
	@git ls-files '*.c' '*.h' '*.cc' | xargs clang-format -i

install: all
	@cmake --install $(BUILD) > /dev/null
	@echo "installed under $(PREFIX)"

$(BUILD)/make-random-model: all

clean:
	rm -rf $(BUILD) $(BUILD)-* $(BUILD).cmake.log

help:
	@echo "make            build $(BUILD)/sereno"
	@echo "make run        fetch a small model if it is not there and answer PROMPT=\"...\""
	@echo "make test       all tests, plain and under sanitizers"
	@echo "make bench-peers  our passes beside those of llama.cpp; PEERS=--quick (bench/README.md)"
	@echo "make bench-decode-peers  whole answers beside llama.cpp's, with speculation; PEERS=--quick"
	@echo "make bench-corun  what a foreground and an LLM do to each other; CORUN=\"frontier --peer\", goes on after a stop"
	@echo "make bench-corun-quick  the same in two minutes"
	@echo "make lint       clang-format, clang-tidy, cppcheck"
	@echo "make format     format the sources"
	@echo "make install    install under PREFIX=$(PREFIX)"
	@echo "make clean      remove what was built"
