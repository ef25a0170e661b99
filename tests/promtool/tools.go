//go:build tools

// Package tools pins the program that checks the alerts in tests.
package tools

import _ "github.com/prometheus/prometheus/cmd/promtool"
