// Reads the dashboard in its first argument by the types that Grafana generates of its own schema, strictly: a field that
// the schema does not know, one that it demands and does not find, or a value of another type is an error.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		plugins.RegisterDefaultPlugins() // the options of each kind of panel, and of queries
		var board dashboard.Dashboard
		err = board.UnmarshalJSONStrict(text)
		if err == nil || err.Error() == "" { // where nothing is wrong it returns an empty list of errors
			err = board.Validate()
			fmt.Println("panels:", len(board.Panels))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
