//go:build tools

// Package tools pins the command line of Open Cluster Management that runs against our hub in tests.
package tools

import _ "open-cluster-management.io/clusteradm/cmd/clusteradm"
