# The two commands of the README, and the other checks that CI runs.
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Roll an add-on out across twelve clusters on this machine, from commit to status commit
	$(CARGO) run -- demo $(DEMO_FLAGS)

.PHONY: test
test: ## Run every test, those against a real Kubernetes API server included
	@tests/run

.PHONY: cluster
cluster: ## Start a hub and two spokes with real nodes on this machine, and keep them running until Ctrl-C; needs root
	$(CARGO) build --bin wheelwright
	@tests/cluster/bed --binary $${CARGO_TARGET_DIR:-target}/debug/wheelwright

.PHONY: lint
lint: ## Check format, lints, and the dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- --deny warnings
	tests/pure
	tests/deny

.PHONY: book
book: ## Build the docs as a book, and check its links
	@tests/book/build

.PHONY: mutants
mutants: ## Change the safety core piece by piece and list the changes that no test notices; takes half an hour
	@tests/mutants

.PHONY: interop
interop: ## Run only the tests that run our programs beside those of Open Cluster Management and in their place
	tests/interop/build >/dev/null
	tests/clusteradm/build >/dev/null
	$(CARGO) test --test it -- interop:: --nocapture --test-threads=2

.PHONY: addons
addons: ## Run the published add-ons of Open Cluster Management on real nodes
	tests/cluster-proxy/build >/dev/null
	tests/governance/build >/dev/null
	tests/managed-serviceaccount/build >/dev/null
	$(CARGO) test --test it -- cluster::addons:: published::published_files --include-ignored --nocapture --test-threads=1

.PHONY: neighbors
neighbors: addons ## Run the tests beside real programs that take too long to build for `make test`: Argo CD, gitea, published add-ons and older versions of Kubernetes
	tests/argocd/build >/dev/null
	$(CARGO) test --test it -- argocd::live:: --ignored --nocapture --test-threads=2
	tests/gitservers/gitea/build >/dev/null
	$(CARGO) test --test it -- gitservers:: --ignored --nocapture
	tests/kube/1.30/build >/dev/null
	tests/kube/1.33/build >/dev/null
	$(CARGO) test --test it -- versions:: --ignored --nocapture

.PHONY: matrix
matrix: ## Fail each kind of workload in each way on real nodes, as add-ons, as sets and as stages of a ConfigRepo
	$(CARGO) test --test it -- cluster::matrix:: --ignored --nocapture --test-threads=1

.PHONY: chaos
chaos: ## Kill the embedded hub and every process of the chain, crash before and after every write, play 5,000 random histories, send 10,000 random sequences of requests, and compare the plans of 1,000 commits with what follows
	CRASHES=all HISTORIES=5000 WHEELWRIGHT_PREVIEWS=250 $(CARGO) test -p wheelwright-sim --test it -- crashes:: histories:: previews:: --nocapture
	HUB_KILLS=200 CHAIN_KILLS=200 FUZZ_SEQUENCES=10000 $(CARGO) test --test it -- hub:: faults:: both_hubs_answer --nocapture

.PHONY: fuzz
fuzz: ## Run libFuzzer on everything that reads from outside, five minutes each; TARGETS names some
	tests/fuzz/run $(or $(SECONDS),300) $(TARGETS)

.PHONY: sbom
sbom: ## Write the software bill of materials of the binary (CycloneDX) to sbom.json
	@tools/sbom.py > sbom.json && echo "sbom.json written"

.PHONY: image
image: ## Make the container image without a daemon, as an OCI layout in target/image
	$(CARGO) rustc --release --locked --bin wheelwright -- -C target-feature=+crt-static
	tools/image $${CARGO_TARGET_DIR:-target}/release/wheelwright target/image

.PHONY: bless
bless: ## Rewrite the golden files and everything generated; read the difference before you commit it
	BLESS=1 $(CARGO) test --workspace --lib --tests

.PHONY: bench
bench: ## Run the benchmarks of docs/benchmarks.md
	$(CARGO) bench --workspace --benches
