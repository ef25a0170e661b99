// Serves a registry of container images, with storage in memory only: the distribution project's, which does not list
// referrers, with a configuration, or go-containerregistry's, which does, with an address, a certificate and its key.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	distribution "github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	if len(os.Args) == 4 {
		handler := registry.New(registry.WithReferrersSupport(true))
		log.Fatal(http.ListenAndServeTLS(os.Args[1], os.Args[2], os.Args[3], handler))
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config, err := configuration.Parse(file)
	if err != nil {
		log.Fatal(err)
	}
	server, err := distribution.NewRegistry(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.ListenAndServe())
}
