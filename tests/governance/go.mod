module wheelwright.dev/tests/governance

go 1.26.0

require open-cluster-management.io/governance-policy-propagator v0.17.0
