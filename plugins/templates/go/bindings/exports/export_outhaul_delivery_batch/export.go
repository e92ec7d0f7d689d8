// Package export_outhaul_delivery_batch leads from the interface `batch` to this plugin.
package export_outhaul_delivery_batch

import (
	"my-plugin/bindings/imports/outhaul_delivery_types"
	"my-plugin/plugin"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

func DeliverBatch(events []outhaul_delivery_types.Event) []wit.Result[outhaul_delivery_types.Receipt, outhaul_delivery_types.Failure] {
	return plugin.DeliverBatch(events)
}
