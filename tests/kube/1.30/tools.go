//go:build tools

// Package tools pins the programs of Kubernetes 1.30 that `make neighbors` runs.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
