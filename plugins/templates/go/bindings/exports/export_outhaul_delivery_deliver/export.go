// Package export_outhaul_delivery_deliver leads from the interface `deliver` to this plugin.
package export_outhaul_delivery_deliver

import (
	"my-plugin/bindings/imports/outhaul_delivery_types"
	"my-plugin/plugin"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

func Configure(settingsJSON string) wit.Result[wit.Unit, outhaul_delivery_types.ConfigureError] {
	return plugin.Configure(settingsJSON)
}

func Deliver(event outhaul_delivery_types.Event) wit.Result[outhaul_delivery_types.Receipt, outhaul_delivery_types.Failure] {
	return plugin.Deliver(event)
}
