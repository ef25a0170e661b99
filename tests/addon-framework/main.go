// Command addon-framework runs the helloworld add-on of OCM's addon-framework, its manager or its agent, as the module publishes them. It is
// not the command of the module because that one serves health on a fixed port of all addresses.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"open-cluster-management.io/addon-framework/examples/helloworld"
	"open-cluster-management.io/addon-framework/examples/helloworld_agent"
	"open-cluster-management.io/addon-framework/pkg/addonfactory"
	"open-cluster-management.io/addon-framework/pkg/addonmanager"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
)

func runManager(ctx context.Context, config *rest.Config) error {
	client, err := addonclient.NewForConfig(config)
	if err != nil {
		return err
	}
	manager, err := addonmanager.New(config)
	if err != nil {
		return err
	}
	configs := utils.NewAddOnDeploymentConfigGetter(client)
	registration := helloworld.NewRegistrationOption(config, helloworld.AddonName, utilrand.String(5))
	addon, err := addonfactory.NewAgentAddonFactory(helloworld.AddonName, helloworld.FS, "manifests/templates").
		WithConfigGVRs(utils.AddOnDeploymentConfigGVR).
		WithGetValuesFuncs(helloworld.GetDefaultValues, addonfactory.GetAddOnDeploymentConfigValues(configs, addonfactory.ToAddOnDeploymentConfigValues)).
		WithAgentRegistrationOption(registration).
		WithAgentInstallNamespace(utils.AgentInstallNamespaceFromDeploymentConfigFunc(configs)).
		WithAgentHealthProber(helloworld.AgentHealthProber()).
		BuildTemplateAgentAddon()
	if err != nil {
		return err
	}
	if err := manager.AddAgent(addon); err != nil {
		return err
	}
	if err := manager.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// command runs something under the kubeconfig of a flag.
func command(name string, run func(context.Context, *rest.Config) error) *cobra.Command {
	var kubeconfig string
	command := &cobra.Command{
		Use: name,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			return run(command.Context(), config)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "Kubeconfig of the hub for the controller, of the cluster for the agent.")
	return command
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := helloworld_agent.NewAgentOptions(helloworld.AddonName)
	agent := command("agent", options.RunAgent)
	options.AddFlags(agent)
	root := &cobra.Command{Use: "addon-framework", SilenceUsage: true}
	root.AddCommand(command("controller", runManager), agent)
	if err := root.ExecuteContext(ctx); err != nil {
		log.Fatal(err)
	}
}
