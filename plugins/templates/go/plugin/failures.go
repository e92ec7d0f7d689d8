package plugin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	types "my-plugin/bindings/imports/outhaul_delivery_types"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

// A Kind of failure decides what the host does next.
type Kind uint8

const (
	// Retry: this event may succeed later. Another attempt after a while, until its attempts are used up.
	Retry Kind = Kind(types.Failure_Retry)
	// RateLimited: the destination asks for fewer requests. All its events wait, and no attempt is used.
	RateLimited Kind = Kind(types.Failure_RateLimited)
	// Unavailable: the destination can't take anything now. All its events wait, and no attempt is used.
	Unavailable Kind = Kind(types.Failure_Unavailable)
	// Rejected: the destination will never take this event. A dead letter at once.
	Rejected Kind = Kind(types.Failure_Rejected)
	// Conflict: the destination has this ID with other content. A dead letter, for a person to look at.
	Conflict Kind = Kind(types.Failure_Conflict)
	// Gone: the destination is gone for good. Nothing more is sent until the operator acts.
	Gone Kind = Kind(types.Failure_Gone)
	// Misconfigured: the settings or credentials are wrong. Nothing more is sent until the operator acts.
	Misconfigured Kind = Kind(types.Failure_Misconfigured)
	// Other: as Retry.
	Other Kind = Kind(types.Failure_Other)
)

// A Failure is a delivery that failed; `deliver` returns it as its error.
type Failure struct {
	Kind         Kind
	Code         string             // a short word for machines
	Message      string             // a sentence for people
	MaybeApplied bool               // it may have happened all the same
	AfterMs      wit.Option[uint64] // when to try again, of the first three kinds only
}

func (failure *Failure) Error() string { return failure.Code + ": " + failure.Message }

func (failure *Failure) contract() types.Failure {
	code, message := text(failure.Code), text(failure.Message)
	info := types.Info{Code: code, Message: message, MaybeApplied: failure.MaybeApplied, AfterMs: failure.AfterMs}
	detail := types.Detail{Code: code, Message: message, MaybeApplied: failure.MaybeApplied}
	switch failure.Kind {
	case Retry:
		return types.MakeFailureRetry(info)
	case RateLimited:
		return types.MakeFailureRateLimited(info)
	case Unavailable:
		return types.MakeFailureUnavailable(info)
	case Rejected:
		return types.MakeFailureRejected(detail)
	case Conflict:
		return types.MakeFailureConflict(detail)
	case Gone:
		return types.MakeFailureGone(detail)
	case Misconfigured:
		return types.MakeFailureMisconfigured(detail)
	default:
		return types.MakeFailureOther(detail)
	}
}

// failureOf is the failure that an answer means; nil for success.
func failureOf(answer *Answer, now time.Time) error {
	status := answer.Status
	if status >= 200 && status <= 299 {
		return nil
	}
	message := fmt.Sprintf("the receiver answered %d", status)
	if answer.Excerpt != "" {
		message += ": " + answer.Excerpt
	}
	return &Failure{
		Kind:    kindOf(status),
		Code:    fmt.Sprintf("http-%d", status),
		Message: message,
		// A gateway that got no answer can't tell whether the receiver acted.
		MaybeApplied: status == 502 || status == 504,
		AfterMs:      wishMs(answer.RetryAfter, now),
	}
}

func kindOf(status uint16) Kind {
	switch status {
	case 400, 413, 415, 422:
		return Rejected
	case 401, 403:
		// Not the event's fault: a rotated credential must not make dead letters of a backlog.
		return Misconfigured
	case 409:
		return Conflict
	case 410:
		return Gone
	case 429:
		return RateLimited
	case 502, 503, 504:
		return Unavailable
	default:
		return Retry
	}
}

// wishMs reads `Retry-After`, which is seconds or a date. Nothing sensible is no wish; the host caps a
// long one.
func wishMs(retryAfter string, now time.Time) wit.Option[uint64] {
	retryAfter = strings.TrimSpace(retryAfter)
	if retryAfter != "" && strings.Trim(retryAfter, "0123456789") == "" {
		seconds, err := strconv.ParseUint(retryAfter[:min(len(retryAfter), 12)], 10, 64)
		if err == nil {
			return wit.Some(seconds * 1000)
		}
	}
	if date, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", retryAfter); err == nil && date.After(now) {
		return wit.Some(uint64(date.Sub(now).Milliseconds()))
	}
	return wit.None[uint64]()
}
