// Command ocm asks Open Cluster Management's own library where a rollout stands: a JSON document a line in, its answer a line out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	rollout "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	decisions "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"
)

type question struct {
	Now      time.Time       `json:"now"`
	Strategy json.RawMessage `json:"strategy"`
	Groups   []struct {
		Index    int32    `json:"index"`
		Name     string   `json:"name"`
		Clusters []string `json:"clusters"`
	} `json:"groups"`
	// Clusters are the existing ones: those with a status.
	Clusters []struct {
		Name   string       `json:"name"`
		Status string       `json:"status"`
		Since  *metav1.Time `json:"since"`
	} `json:"clusters"`
}

type answer struct {
	// Rollout holds a status by cluster.
	Rollout  map[string]string `json:"rollout"`
	TimedOut []string          `json:"timedOut"`
	Removed  []string          `json:"removed"`
	Breach   bool              `json:"breach"`
	// RecheckAfter is in seconds, for whole ones is all that is asked.
	RecheckAfter *float64 `json:"recheckAfter"`
	Error        string   `json:"error"`
}

var statuses = map[string]rollout.RolloutStatus{
	"ToApply":     rollout.ToApply,
	"Progressing": rollout.Progressing,
	"Succeeded":   rollout.Succeeded,
	"Failed":      rollout.Failed,
	"TimeOut":     rollout.TimeOut,
	"Skip":        rollout.Skip,
}

func name(status rollout.RolloutStatus) string {
	for name, known := range statuses {
		if known == status {
			return name
		}
	}
	return fmt.Sprint(status)
}

func ask(q question) (answer, error) {
	rollout.RolloutClock = clocktesting.NewFakeClock(q.Now)
	var strategy clusterv1alpha1.RolloutStrategy
	if err := json.Unmarshal(q.Strategy, &strategy); err != nil {
		return answer{}, err
	}
	groups := decisions.ClusterGroupsMap{}
	for _, group := range q.Groups {
		groups[decisions.GroupKey{GroupName: group.Name, GroupIndex: group.Index}] = sets.New(group.Clusters...)
	}
	tracker := decisions.NewPlacementDecisionClustersTrackerWithGroups(nil, nil, groups)
	handler, err := rollout.NewRolloutHandler[struct{}](tracker, nil)
	if err != nil {
		return answer{}, err
	}
	var existing []rollout.ClusterRolloutStatus
	for _, cluster := range q.Clusters {
		status, known := statuses[cluster.Status]
		if !known {
			return answer{}, fmt.Errorf("%s: unknown status %q", cluster.Name, cluster.Status)
		}
		existing = append(existing, rollout.ClusterRolloutStatus{ClusterName: cluster.Name, Status: status, LastTransitionTime: cluster.Since})
	}
	_, result, err := handler.GetRolloutCluster(strategy, existing)
	if err != nil {
		return answer{}, err
	}
	a := answer{Rollout: map[string]string{}, TimedOut: []string{}, Removed: []string{}, Breach: result.MaxFailureBreach}
	for _, cluster := range result.ClustersToRollout {
		a.Rollout[cluster.ClusterName] = name(cluster.Status)
	}
	for _, cluster := range result.ClustersTimeOut {
		a.TimedOut = append(a.TimedOut, cluster.ClusterName)
	}
	for _, cluster := range result.ClustersRemoved {
		a.Removed = append(a.Removed, cluster.ClusterName)
	}
	if result.RecheckAfter != nil {
		seconds := result.RecheckAfter.Seconds()
		a.RecheckAfter = &seconds
	}
	return a, nil
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.More() {
		var q question
		if err := in.Decode(&q); err != nil {
			log.Fatal(err)
		}
		a, err := ask(q)
		if err != nil {
			a.Error = err.Error()
		}
		if err := json.NewEncoder(out).Encode(a); err != nil {
			log.Fatal(err)
		}
	}
}
