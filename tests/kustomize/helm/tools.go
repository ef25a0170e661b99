//go:build tools

// Package tools pins the program with which kustomize inflates charts in tests.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
