package plugin

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"my-plugin/bindings/imports/outhaul_delivery_describe"
	types "my-plugin/bindings/imports/outhaul_delivery_types"
	"my-plugin/bindings/imports/outhaul_log_log"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

// What the host calls arrives in this file and goes on to plugin.go. A panic becomes a failure with its
// message: left to itself, it would end the instance, and the history would only know of a trap. What Go
// can't recover from still does that: no memory left, a stack without end, os.Exit.

type result = wit.Result[types.Receipt, types.Failure]

// Configure is the contract's `configure`.
func Configure(settingsJSON string) wit.Result[wit.Unit, types.ConfigureError] {
	_, err := guarded(func() (wit.Unit, error) { return wit.Unit{}, configure(settingsJSON) })
	var refused *Refused
	switch {
	case err == nil:
		return wit.Ok[wit.Unit, types.ConfigureError](wit.Unit{})
	case errors.As(err, &refused):
		problems := make([]types.SettingsProblem, len(refused.Problems))
		for i, problem := range refused.Problems {
			problems[i] = types.SettingsProblem{Pointer: problem.Pointer, Message: problem.Message}
		}
		return wit.Err[wit.Unit](types.MakeConfigureErrorSettings(problems))
	default:
		return wit.Err[wit.Unit](types.MakeConfigureErrorUnavailable(text(err.Error())))
	}
}

// Deliver is the contract's `deliver`.
func Deliver(event types.Event) result {
	collect()
	return resultOf(guarded(func() (types.Receipt, error) { return deliver(&event) }))
}

// As many events of a batch are under way at once. Fewer than the host's connections to one destination
// (64 by default), since a request that waits for one can't be written.
const underWay = 32

// DeliverBatch is the contract's optional `deliver-batch`: one budget for all, and a result for each.
func DeliverBatch(events []types.Event) []result {
	collect()
	results := make([]result, len(events))
	if len(events) == 0 {
		return results
	}
	by := within(events[0].BudgetMs)
	begun := make([]func() (types.Receipt, error), len(events))
	for i := range len(events) + underWay {
		if i < len(events) {
			request, err := guarded(func() (*Request, error) { return begin(&events[i], by) })
			begun[i] = func() (types.Receipt, error) {
				if err != nil {
					return types.Receipt{}, err
				}
				return receipt(request)
			}
		}
		if done := i - underWay; done >= 0 {
			results[done] = resultOf(guarded(begun[done]))
		}
	}
	return results
}

// Describe is the contract's optional `describe`.
func Describe() outhaul_delivery_describe.Description { return describe() }

func guarded[T any](step func() (T, error)) (value T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log(Error, fmt.Sprintf("panic: %v\n%s", cause, debug.Stack()))
			// It may have happened after the effect.
			err = &Failure{Kind: Other, Code: "panic", Message: fmt.Sprint(cause), MaybeApplied: true}
		}
	}()
	return step()
}

func resultOf(receipt types.Receipt, err error) result {
	if err == nil {
		return wit.Ok[types.Receipt, types.Failure](receipt)
	}
	var failure *Failure
	if !errors.As(err, &failure) {
		failure = &Failure{Kind: Other, Code: "error", Message: err.Error(), MaybeApplied: true}
	}
	return wit.Err[types.Receipt](failure.contract())
}

// text is what the contract takes for text: the host ends an instance that passes anything but UTF-8.
func text(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

type level = outhaul_log_log.Level

// The levels of log lines.
const (
	Trace level = outhaul_log_log.Level_Trace
	Debug level = outhaul_log_log.Level_Debug
	Info  level = outhaul_log_log.Level_Info
	Warn  level = outhaul_log_log.Level_Warn
	Error level = outhaul_log_log.Level_Error
)

// log writes one record to the host's log. What a program prints goes there too.
func log(level level, message string) { outhaul_log_log.Log(level, text(message)) }
