//go:build tools

// Package tools pins the program that renders kustomizations with charts in tests.
package tools

import _ "sigs.k8s.io/kustomize/kustomize/v5"
