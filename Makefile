# The two commands of the README, and the other checks that CI runs.
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Roll out an add-on to twelve clusters on this machine, from commit to status commit
	$(CARGO) run -- demo $(DEMO_FLAGS)

.PHONY: test
test: ## Run all tests, including those against a real Kubernetes API server
	@tests/run

.PHONY: cluster
cluster: ## Start a hub and two spokes with real nodes on this machine, until Ctrl-C; needs root
	$(CARGO) build --bins
	@tests/cluster/bed --binaries $${CARGO_TARGET_DIR:-target}/debug

.PHONY: lint
lint: ## Check format, lints and dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- --deny warnings
	tests/pure
	tests/deny

.PHONY: book
book: ## Build the docs as a book, and check its links
	@tests/book/build

.PHONY: mutants
mutants: ## Mutate the safety core and list the mutants that no test catches; takes half an hour
	@tests/mutants

.PHONY: interop
interop: ## Run only the tests with programs of Open Cluster Management, next to ours or in their place
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
neighbors: addons ## Run the tests whose programs take too long to build for `make test`: Argo CD, gitea, published add-ons, older Kubernetes versions
	tests/argocd/build >/dev/null
	$(CARGO) test --test it -- argocd::live:: --ignored --nocapture --test-threads=2
	tests/gitservers/gitea/build >/dev/null
	$(CARGO) test --test it -- gitservers:: --ignored --nocapture
	tests/kube/1.30/build >/dev/null
	tests/kube/1.33/build >/dev/null
	$(CARGO) test --test it -- versions:: --ignored --nocapture

.PHONY: matrix
matrix: ## Break each kind of workload in each way on real nodes: as add-ons, as sets, and in stages of a ConfigRepo
	$(CARGO) test --test it -- cluster::matrix:: --ignored --nocapture --test-threads=1

.PHONY: chaos
chaos: ## Kill every process, crash before and after every write, and check thousands of random histories, requests and plans
	CRASHES=all HISTORIES=5000 WHEELWRIGHT_PREVIEWS=250 $(CARGO) test -p wheelwright-sim --test it -- crashes:: histories:: previews:: --nocapture
	HUB_KILLS=200 CHAIN_KILLS=200 FUZZ_SEQUENCES=10000 $(CARGO) test --test it -- hub:: faults:: both_hubs_answer --nocapture

.PHONY: fuzz
fuzz: ## Fuzz all parsers of external input, five minutes each; TARGETS selects some
	tests/fuzz/run $(or $(SECONDS),300) $(TARGETS)

.PHONY: sbom
sbom: ## Write the software bill of materials of the binaries (CycloneDX) to sbom.json
	@tools/sbom.py > sbom.json && echo "sbom.json written"

.PHONY: image
image: image-wheelwright image-wheelwright-agent ## Build the container images without a daemon, as OCI layouts in target/images
image-wheelwright-agent: profile = agent
image-%: profile = release
image-%:
	$(CARGO) rustc --profile $(profile) --locked --bin $* -- -C target-feature=+crt-static
	tools/image --program $* $${CARGO_TARGET_DIR:-target}/$(profile)/$* target/images/$*

.PHONY: bless
bless: ## Rewrite the golden and generated files; read the diff before you commit
	BLESS=1 $(CARGO) test --workspace --lib --tests

.PHONY: bench
bench: ## Run the benchmarks of docs/benchmarks.md
	$(CARGO) bench --workspace --benches
