// Serves an in-memory redis at the address of its argument: what Argo CD's own tests put in the place of redis.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Keys expire only when the server is told that time has passed.
	for range time.Tick(time.Second) {
		server.FastForward(time.Second)
	}
}
