//go:build tools

// Package tools pins the program that renders charts in tests.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
