module wheelwright.dev/tests/managed-serviceaccount

go 1.26.0

require open-cluster-management.io/managed-serviceaccount v0.10.0
