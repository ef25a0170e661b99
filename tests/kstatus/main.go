// Command kstatus asks kubectl and kstatus whether an object is done, and evaluates condition rules on it as OCM's agents do: a JSON document
// a line in, the answers a line out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type question struct {
	Object json.RawMessage `json:"object"`
	// Rules holds expressions by the condition that they are for.
	Rules map[string]string `json:"rules"`
}

type answer struct {
	// Kubectl is Done, Waits or Failed; empty for kinds that `kubectl rollout status` does not know.
	Kubectl string `json:"kubectl"`
	// Kstatus is Current, InProgress, Failed, Terminating or Unknown.
	Kstatus string `json:"kstatus"`
	// Rules holds the results by condition.
	Rules map[string]bool `json:"rules"`
}

// programs holds the compiled expressions.
var programs = map[string]cel.Program{}

func evaluate(env *cel.Env, expression string, object map[string]any) (bool, error) {
	program, known := programs[expression]
	if !known {
		ast, issues := env.Compile(expression)
		if err := issues.Err(); err != nil {
			return false, err
		}
		var err error
		if program, err = env.Program(ast); err != nil {
			return false, err
		}
		programs[expression] = program
	}
	result, _, err := program.Eval(map[string]any{"object": object})
	if err != nil {
		return false, err
	}
	holds, is := result.Value().(bool)
	if !is {
		return false, fmt.Errorf("%s gives %v", expression, result.Value())
	}
	return holds, nil
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
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType))
	if err != nil {
		log.Fatal(err)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var asked question
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			log.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(asked.Object); err != nil {
			log.Fatal(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			log.Fatal(err)
		}
		rules := map[string]bool{}
		for condition, expression := range asked.Rules {
			if rules[condition], err = evaluate(env, expression, object.Object); err != nil {
				log.Fatalf("%s: %v", asked.Object, err)
			}
		}
		if err := out.Encode(answer{kubectl(object), string(result.Status), rules}); err != nil {
			log.Fatal(err)
		}
	}
	if err := in.Err(); err != nil {
		log.Fatal(err)
	}
}
