# Begin with `make demo` or `make test`; both set up what is missing.

GO ?= go
LINT := $(GO) tool -modfile=tools.mod golangci-lint

.DEFAULT_GOAL := help
.PHONY: help demo test test-kernels test-action test-servers build bench statistics lint setup clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## set up, build, and catch a regression on the running kernel
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh

test: ## set up and run all tests; those of the kernel skip without root
	@scripts/setup.sh test
	$(GO) test -timeout 60m ./...

test-kernels: ## run the kernel tests on Linux 6.12 and 6.1, in virtual machines (ARGS="-run Load bpf")
	@scripts/setup.sh test
	CGO_ENABLED=0 $(GO) run ./internal/kerneltest $(ARGS)

test-action: ## test the GitHub Action with a real Docker engine, workflow runner and forge
	@scripts/test-action.sh

test-servers: ## test stores and pushes with servers of Google's and Azure's protocols and a push gateway
	@scripts/test-servers.sh

build: ## build bin/gate, static
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/gate ./cmd/gate

bench: ## set up, and measure the measuring (ARGS="-only rate")
	@scripts/setup.sh test
	@scripts/bench.sh $(ARGS)

statistics: ## make the tables of docs/statistics.md anew (takes long)
	$(GO) run ./internal/statistics -out docs/statistics.md

lint: ## run the linters (the first time builds them, which takes minutes)
	$(LINT) run

setup: ## install what demo and tests need, with apt
	@scripts/setup.sh demo
	@scripts/setup.sh test

clean: ## remove what was built; stored runs stay
	rm -rf bin
	$(MAKE) -s -C examples/fun-xdp clean
	$(MAKE) -s -C examples/profiler clean
