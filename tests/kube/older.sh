# shellcheck shell=bash
# Sourced by the `build` of each version of Kubernetes that is older than the pinned one: prints the directory of its kube-apiserver and
# kube-controller-manager. etcd and kubectl are those of the pinned version. A build takes ten minutes of a core.
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
