#include "failures.h"

#include <stdlib.h>
#include <string.h>

failure_t failure_of(uint8_t kind, const char *code, const char *message, bool maybe_applied) {
    failure_t failure = {.tag = kind};
    if (kind <= OUTHAUL_DELIVERY_TYPES_FAILURE_UNAVAILABLE) {
        outhaul_delivery_types_info_t *info = &failure.val.retry;
        plugin_string_dup(&info->code, code);
        plugin_string_dup(&info->message, message);
        info->maybe_applied = maybe_applied;
    } else {
        outhaul_delivery_types_detail_t *detail = &failure.val.rejected;
        plugin_string_dup(&detail->code, code);
        plugin_string_dup(&detail->message, message);
        detail->maybe_applied = maybe_applied;
    }
    return failure;
}

static uint8_t kind_of_status(uint16_t status) {
    switch (status) {
        case 400: case 413: case 415: case 422: return OUTHAUL_DELIVERY_TYPES_FAILURE_REJECTED;
        // Not the event's fault: a rotated credential must not make dead letters of a backlog.
        case 401: case 403: return OUTHAUL_DELIVERY_TYPES_FAILURE_MISCONFIGURED;
        case 409: return OUTHAUL_DELIVERY_TYPES_FAILURE_CONFLICT;
        case 410: return OUTHAUL_DELIVERY_TYPES_FAILURE_GONE;
        case 429: return OUTHAUL_DELIVERY_TYPES_FAILURE_RATE_LIMITED;
        case 502: case 503: case 504: return OUTHAUL_DELIVERY_TYPES_FAILURE_UNAVAILABLE;
        default: return OUTHAUL_DELIVERY_TYPES_FAILURE_RETRY;
    }
}

static uint8_t kind_of_end(http_end_t end) {
    switch (end) {
        case UNREACHABLE: return OUTHAUL_DELIVERY_TYPES_FAILURE_UNAVAILABLE;
        case FORBIDDEN: return OUTHAUL_DELIVERY_TYPES_FAILURE_MISCONFIGURED;
        case UNSENDABLE: return OUTHAUL_DELIVERY_TYPES_FAILURE_REJECTED;
        default: return OUTHAUL_DELIVERY_TYPES_FAILURE_RETRY;
    }
}

bool failure_of_result(http_result_t *result, failure_t *failure) {
    if (result->end != ANSWERED) {
        *failure = failure_of(kind_of_end(result->end), result->code, result->message, result->end == UNCERTAIN);
        return true;
    }
    if (result->status >= 200 && result->status <= 299) return false;
    text_make_utf8(result->excerpt);
    text_trim(result->excerpt);
    text_t code = text_of("http-%u", result->status);
    bool has_excerpt = result->excerpt && *result->excerpt;
    text_t message = text_of("the receiver answered %u%s%s", result->status, has_excerpt ? ": " : "",
                             has_excerpt ? result->excerpt : "");
    // A gateway that got no answer can't tell whether the receiver acted.
    bool maybe_applied = result->status == 502 || result->status == 504;
    *failure = failure_of(kind_of_status(result->status), code.bytes, message.bytes, maybe_applied);
    free(code.bytes);
    free(message.bytes);
    wasi_clocks_wall_clock_datetime_t now;
    wasi_clocks_wall_clock_now(&now);
    outhaul_delivery_types_info_t *info = &failure->val.retry;
    if (failure->tag <= OUTHAUL_DELIVERY_TYPES_FAILURE_UNAVAILABLE && result->retry_after)
        info->after_ms.is_some = parse_retry_after(result->retry_after, now.seconds, &info->after_ms.val);
    return true;
}

// Two digits, or -1.
static int two(const char *at) {
    bool are_digits = at[0] >= '0' && at[0] <= '9' && at[1] >= '0' && at[1] <= '9';
    return are_digits ? (at[0] - '0') * 10 + (at[1] - '0') : -1;
}

// Days since 1970 of a day in the Gregorian calendar. Years begin in March, so that the leap day is the last.
static int64_t days(int year, int month, int day) {
    if (month <= 2) year--, month += 12;
    return 365ll * year + year / 4 - year / 100 + year / 400 + (153 * (month - 3) + 2) / 5 + day - 719469;
}

// "Sun, 06 Nov 1994 08:49:37 GMT", the one form that senders may still use (RFC 9110, 5.6.7).
static bool parse_date(const char *text, int64_t *seconds) {
    if (strlen(text) != 29 || memcmp(text + 25, " GMT", 4) != 0) return false;
    static const char MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int month = 0;
    while (month < 12 && memcmp(MONTHS + 3 * month, text + 8, 3) != 0) month++;
    int day = two(text + 5), century = two(text + 12), year = two(text + 14);
    int hour = two(text + 17), minute = two(text + 20), second = two(text + 23);
    if (month == 12 || day < 1 || century < 0 || year < 0 || hour < 0 || minute < 0 || second < 0) return false;
    *seconds = ((days(century * 100 + year, month + 1, day) * 24 + hour) * 60 + minute) * 60 + second;
    return true;
}

bool parse_retry_after(const char *text, uint64_t now_s, uint64_t *wait_ms) {
    size_t digits = strspn(text, "0123456789");
    if (digits > 0 && !text[digits]) {
        // More digits than these are a very long time, which the host caps.
        *wait_ms = digits > 12 ? UINT64_MAX : strtoull(text, NULL, 10) * 1000;
        return true;
    }
    int64_t then_s;
    if (!parse_date(text, &then_s) || then_s <= (int64_t)now_s) return false;
    *wait_ms = (uint64_t)(then_s - (int64_t)now_s) * 1000;
    return true;
}
