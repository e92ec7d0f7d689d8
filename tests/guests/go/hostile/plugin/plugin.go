// Package plugin does what a plugin should not: what the event's payload names. It takes the place of the
// template's plugin.go.
package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"my-plugin/bindings/imports/outhaul_delivery_describe"
	types "my-plugin/bindings/imports/outhaul_delivery_types"
	clock "my-plugin/bindings/imports/wasi_clocks_monotonic_clock"
	io "my-plugin/bindings/imports/wasi_io_poll"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

// Schema is the template's; this plugin takes any settings.
var Schema string

var (
	settings Settings
	calls    int
	kept     [][]byte
	handles  []*io.Pollable
)

type order struct {
	Misdeed string
	Lines   int
	Ms      int
	Bytes   int
}

func configure(string) error { return nil }

func deliver(event *types.Event) (types.Receipt, error) {
	calls++
	var order order
	if err := json.Unmarshal(event.Payload, &order); err != nil {
		return types.Receipt{}, err
	}
	switch order.Misdeed {
	case "remember":
	case "fail":
		var customers map[string]int
		customers["Zoë"] = 1 // a nil map
	case "fail-with-error":
		return types.Receipt{}, errors.New("no such customer: Zoë")
	case "broken-text":
		return types.Receipt{}, errors.New("no UTF-8: \xff")
	case "recursion":
		return delivered(fmt.Sprint(recurse(1)))
	case "flood":
		for line := range order.Lines {
			log(Info, fmt.Sprintf("line %d\nforged {}", line))
		}
	case "print":
		for line := range order.Lines {
			fmt.Println("line", line)
		}
	case "spin":
		for spin := 0; ; spin++ {
		}
	case "sleep":
		time.Sleep(time.Duration(order.Ms) * time.Millisecond)
	case "garbage":
		for range order.Lines {
			kept = [][]byte{make([]byte, order.Bytes)}
		}
		kept = nil
	case "allocate":
		for {
			kept = append(kept, make([]byte, 1<<20))
		}
	case "leak":
		kept = append(kept, make([]byte, order.Bytes))
	case "handles":
		for {
			handles = append(handles, clock.SubscribeDuration(1))
		}
	case "exit":
		os.Exit(3)
	case "big-reference":
		return delivered(strings.Repeat("x", 10_000_000))
	case "big-message":
		return types.Receipt{}, &Failure{Kind: Rejected, Code: "big", Message: strings.Repeat("x", 10_000_000)}
	default:
		return types.Receipt{}, fmt.Errorf("no such misdeed: %q", order.Misdeed)
	}
	return delivered(fmt.Sprintf("calls=%d", calls))
}

func recurse(depth int) int {
	if depth == 0 {
		return 0
	}
	return 1 + recurse(depth+1)
}

func delivered(reference string) (types.Receipt, error) {
	return types.Receipt{Disposition: types.Disposition_Delivered, Reference: wit.Some(reference)}, nil
}

// A batch's events are delivered one after the other.
func begin(event *types.Event, _ deadline) (*Request, error) {
	_, err := deliver(event)
	return nil, err
}

func receipt(*Request) (types.Receipt, error) { return delivered("in a batch") }

func describe() outhaul_delivery_describe.Description {
	return outhaul_delivery_describe.Description{Name: "hostile-go", Version: "0.1.0", SettingsSchema: "{}"}
}
