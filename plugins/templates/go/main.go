// Command my-plugin is a component, not a program: the host calls what bindings/exports exports, and main
// never runs.
package main

import (
	_ "embed"

	_ "my-plugin/bindings/exports/wit_exports"
	"my-plugin/plugin"
)

//go:embed settings.schema.json
var schema string

func init() { plugin.Schema = schema }

func main() {}
