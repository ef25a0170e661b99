//go:build tools

// Package gitea pins the Git service that tests run against.
package gitea

import _ "code.gitea.io/gitea"
