package plugin

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Go's collector reads the clock, and may start at any allocation. One that happens while the host passes
// values in must not call the host, so the collector would end the instance there. It is switched off, and
// runs at the beginning of a call instead. A call that makes tens of megabytes of garbage by itself
// may call `collect` in between.

// garbageBytes is allocated before the collector runs; well below the default of limits.memory, 64 MiB.
const garbageBytes = 8 << 20

func init() { debug.SetGCPercent(-1) }

var heap = []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}

// What was in use after the collector last ran.
var live uint64

func collect() {
	metrics.Read(heap)
	if heap[0].Value.Uint64() > live+garbageBytes {
		runtime.GC()
		metrics.Read(heap)
		live = heap[0].Value.Uint64()
	}
}
