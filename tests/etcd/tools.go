//go:build tools

// Package tools pins the programs that back up and restore an etcd in tests.
package tools

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
)
