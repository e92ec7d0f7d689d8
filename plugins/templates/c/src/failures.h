// Every way in which a delivery can fail, and which one an answer means.
#pragma once

#include "http.h"
#include "plugin.h"

typedef outhaul_delivery_types_failure_t failure_t;

// The kinds, by their tags OUTHAUL_DELIVERY_TYPES_FAILURE_…:
//   RETRY          this event may succeed later: another attempt after a while, until its attempts are used up
//   RATE_LIMITED   the destination asks for fewer requests: all its events wait, and no attempt is used
//   UNAVAILABLE    the destination can't take anything now: all its events wait, and no attempt is used
//   REJECTED       the destination will never take this event: a dead letter at once
//   CONFLICT       the destination has this ID with other content: a dead letter, for a person to look at
//   GONE           the destination is gone for good: nothing more is sent until the operator acts
//   MISCONFIGURED  the settings or credentials are wrong: nothing more is sent until the operator acts
//   OTHER          as RETRY
// `code` is a short word for machines, `message` a sentence for people. `maybe_applied`: it may have happened
// all the same.
failure_t failure_of(uint8_t kind, const char *code, const char *message, bool maybe_applied);

// The failure that an end of a request means; false for success.
bool failure_of_result(http_result_t *result, failure_t *failure);

// Milliseconds to wait by `Retry-After`, which is seconds or a date; false for no sensible wish.
bool parse_retry_after(const char *text, uint64_t now_s, uint64_t *wait_ms);
