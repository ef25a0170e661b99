// Command webhooks serves the admission and conversion webhooks of Open Cluster Management in one process. Its own commands each listen on
// ports 8000 and 8080 of every address for health and metrics, so that no two of them run on one machine.
package main

import (
	"flag"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ocmfeature "open-cluster-management.io/api/feature"
	addonv1alpha1 "open-cluster-management.io/ocm/pkg/addon/webhook/v1alpha1"
	addonv1beta1 "open-cluster-management.io/ocm/pkg/addon/webhook/v1beta1"
	"open-cluster-management.io/ocm/pkg/common/options"
	"open-cluster-management.io/ocm/pkg/features"
	clusterv1 "open-cluster-management.io/ocm/pkg/registration/webhook/v1"
	clusterv1beta2 "open-cluster-management.io/ocm/pkg/registration/webhook/v1beta2"
	workv1 "open-cluster-management.io/ocm/pkg/work/webhook/v1"
	workv1alpha1 "open-cluster-management.io/ocm/pkg/work/webhook/v1alpha1"

	apiclusterv1 "open-cluster-management.io/api/cluster/v1"
	apiworkv1 "open-cluster-management.io/api/work/v1"
	apiworkv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	port := flag.Int("port", 9443, "port of the server")
	certificates := flag.String("certdir", "", "directory of tls.crt and tls.key")
	flag.Parse()

	utilruntime.Must(features.HubMutableFeatureGate.Add(ocmfeature.DefaultHubRegistrationFeatureGates))
	utilruntime.Must(features.HubMutableFeatureGate.Add(ocmfeature.DefaultHubWorkFeatureGates))
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiclusterv1.Install, clusterv1beta2.Install,
		apiworkv1.Install, apiworkv1alpha1.Install,
		addonv1alpha1.Install, addonv1beta1.Install,
	} {
		utilruntime.Must(install(scheme))
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer:          webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: *port, CertDir: *certificates}),
	})
	utilruntime.Must(err)
	for _, one := range []options.WebhookInitializer{
		&clusterv1.ManagedClusterWebhook{}, &clusterv1beta2.ManagedClusterSetBindingWebhook{},
		&workv1.ManifestWorkWebhook{}, &workv1alpha1.ManifestWorkReplicaSetWebhook{},
		&addonv1alpha1.ManagedClusterAddOnWebhook{}, &addonv1beta1.ManagedClusterAddOnWebhook{},
		&addonv1alpha1.ClusterManagementAddOnWebhook{}, &addonv1beta1.ClusterManagementAddOnWebhook{},
	} {
		utilruntime.Must(one.Init(manager))
	}
	utilruntime.Must(manager.Start(ctrl.SetupSignalHandler()))
}
