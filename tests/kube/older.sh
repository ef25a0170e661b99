# shellcheck shell=bash
# Sourced by the `build` of each older version of Kubernetes. Prints the directory of its kube-apiserver and kube-controller-manager. The
# tests use etcd and kubectl of the pinned version. A build takes ten minutes of CPU time.
. "$(dirname "${BASH_SOURCE[0]}")/../build.sh"

build() {
    mkdir "$1"
    kubernetes_flags
    for program in kube-apiserver kube-controller-manager; do
        echo "building $program" >&2
        go_build "$1/$program" "k8s.io/kubernetes/cmd/$program"
    done
}

once kube "Kubernetes $(basename "$PWD")" go.mod go.sum
echo "$built"
