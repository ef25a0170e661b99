// Command kstatus asks kubectl and kstatus whether an object is done: a JSON object a line in, the two answers a line out.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	// Kubectl is Done, Waits or Failed; empty for kinds that `kubectl rollout status` does not know.
	Kubectl string `json:"kubectl"`
	// Kstatus is Current, InProgress, Failed, Terminating or Unknown.
	Kstatus string `json:"kstatus"`
}

func kubectl(object *unstructured.Unstructured) string {
	viewer, err := polymorphichelpers.StatusViewerFor(object.GroupVersionKind().GroupKind())
	if err != nil {
		return ""
	}
	_, done, err := viewer.Status(object, 0)
	switch {
	case err != nil && done:
		// It does not judge the strategy OnDelete.
		return ""
	case err != nil:
		return "Failed"
	case done:
		return "Done"
	default:
		return "Waits"
	}
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(in.Bytes()); err != nil {
			log.Fatal(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(answer{Kubectl: kubectl(object), Kstatus: string(result.Status)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := in.Err(); err != nil {
		log.Fatal(err)
	}
}
