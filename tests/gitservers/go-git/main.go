// Serves the repositories of a directory over HTTPS with go-git: go-git DIRECTORY PORT LOGIN.
//
// Every push is refused while its repository has a file `refuse`, with its text as the reason. go-git runs no hooks from disk.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v6/osfs"
	"github.com/go-git/go-git/v6/backend"
	"github.com/go-git/go-git/v6/plumbing/transport"
)

func main() {
	directory, port := os.Args[1], os.Args[2]
	user, password, _ := strings.Cut(os.Args[3], ":")
	loader := transport.NewFilesystemLoader(osfs.New(directory), true)
	git := backend.New(loader)
	git.ErrorLog = log.Default()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		repository, isPush := strings.CutSuffix(r.URL.Path, "/git-receive-pack")
		if !isPush {
			git.ServeHTTP(w, r)
			return
		}
		if err := receive(w, r, loader, filepath.Join(directory, repository)); err != nil {
			log.Print(err)
		}
	})
	log.Fatal(http.ListenAndServeTLS("127.0.0.1:"+port, filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"), handler))
}

// receive does what the backend does, which takes no hooks.
func receive(w http.ResponseWriter, r *http.Request, loader transport.Loader, repository string) error {
	storer, err := loader.Load(&url.URL{Path: strings.TrimSuffix(r.URL.Path, "/git-receive-pack")})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	return transport.ReceivePack(r.Context(), storer, r.Body, nopCloser{w}, &transport.ReceivePackRequest{
		StatelessRPC: true,
		Hooks: transport.ReceivePackHooks{PreReceive: func(context.Context, *transport.PreReceiveInfo) error {
			reason, err := os.ReadFile(filepath.Join(repository, "refuse"))
			if err != nil {
				return nil
			}
			return errors.New(strings.TrimSpace(string(reason)))
		}},
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
