// Package export_outhaul_delivery_describe leads from the interface `describe` to this plugin.
package export_outhaul_delivery_describe

import (
	"my-plugin/bindings/imports/outhaul_delivery_describe"
	"my-plugin/plugin"
)

func Describe() outhaul_delivery_describe.Description {
	return plugin.Describe()
}
