//go:build tools

// Package tools pins the program that recorded the corpus.
package tools

import _ "github.com/getsops/sops/v3/cmd/sops"
