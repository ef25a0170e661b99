# shellcheck shell=bash
# Sourced by `tests/*/build`. Each of these builds a program once, from the sources that its go.mod pins, in a cache outside the checkout,
# and prints the path. Progress goes to standard error.
set -euo pipefail
cd "$(dirname "$0")"

# Sets `built` to a path in the cache, and calls the function `build` to create it if it is missing. Concurrent callers wait.
# Usage: once DIRECTORY WHAT FILE... The contents of the files are the cache key.
once() {
    local cache="${XDG_CACHE_HOME:-$HOME/.cache}/wheelwright/$1" what=$2
    shift 2
    built="$cache/$(cat "$@" | sha256sum | cut -c1-16)"
    [ ! -e "$built" ] || return 0
    if ! command -v go >/dev/null; then
        echo "the tests build $what from source and need Go; install it" >&2
        exit 1
    fi
    mkdir -p "$cache"
    exec 9>"$built.lock"
    flock -n 9 || { echo "another build of $what is running; waiting for it" >&2; flock 9; }
    [ ! -e "$built" ] || return 0
    echo "building $what" >&2
    building=$(mktemp -d "$built.XXXXXX")
    trap 'chmod -R u+w "$building"; rm -rf "$building"' EXIT
    build "$building/built"
    mv "$building/built" "$built"
}

# Builds a Go program. Usage: go_build PATH [FLAG...] PACKAGE
go_build() {
    CGO_ENABLED=0 go build -trimpath -mod=readonly -ldflags "${ldflags:--s -w}" -o "$1" "${@:2}"
}

# Makes go_build embed the Kubernetes version that go.mod pins.
kubernetes_flags() {
    local version
    version="v1.$(sed -n 's/^\tk8s.io\/kubernetes v1\.//p' go.mod)"
    ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitTreeState=clean"
}

# Prints the directory of a module that go.mod pins.
module() {
    go mod download "$1" && go list -mod=readonly -m -f "{{.Dir}}" "$1"
}
