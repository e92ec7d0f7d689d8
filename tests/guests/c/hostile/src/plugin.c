// What a plugin in C should not do: what the event's payload names. It takes the place of the template's plugin.c.

#include "plugin.h"

#include <stdlib.h>
#include <string.h>

#include "failures.h"

static unsigned calls;

// Not folded away, whatever the optimiser thinks of it.
static volatile unsigned always = 1;

// Whether the payload is {"misdeed":"NAME", …}.
static bool is(const outhaul_delivery_types_event_t *event, const char *name) {
    text_t wanted = text_of("\"misdeed\":\"%s\"", name);
    bool is_it = false;
    for (size_t at = 0; at + wanted.length <= event->payload.len && !is_it; at++)
        is_it = memcmp(event->payload.ptr + at, wanted.bytes, wanted.length) == 0;
    free(wanted.bytes);
    return is_it;
}

[[clang::noinline]] static unsigned recurse(unsigned depth) {
    volatile char frame[512];
    memset((char *)frame, (int)depth, sizeof frame);
    return always ? recurse(depth + 1) + (unsigned)frame[depth % sizeof frame] : depth;
}

// Seen by nobody, but the optimiser does not know.
static void *volatile kept;

static void leak(size_t bytes) {
    void *block = malloc(bytes);
    kept = block;
    if (!block) __builtin_trap();
    memset(block, 1, bytes);
}

static void flood(void) {
    for (int line = 0; line < 5000; line++) {
        text_t text = text_of("line %d\nforged {}", line);
        plugin_string_t string = {(uint8_t *)text.bytes, text.length};
        outhaul_log_log_log(OUTHAUL_LOG_LOG_LEVEL_INFO, &string);
        free(text.bytes);
    }
}

static char *big_text(void) {
    char *text = malloc(10000001);
    memset(text, 'x', 10000000);
    text[10000000] = 0;
    return text;
}

static wasi_io_poll_own_pollable_t timer(uint64_t ms) {
    return wasi_clocks_monotonic_clock_subscribe_duration(ms * 1000000);
}

bool exports_outhaul_delivery_deliver_configure(plugin_string_t *settings_json,
                                                outhaul_delivery_types_configure_error_t *error) {
    (void)error;
    plugin_string_free(settings_json);
    return true;
}

static void misbehave(const outhaul_delivery_types_event_t *event) {
    while (is(event, "spin") && always) {}
    if (is(event, "sleep")) wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(timer(60000)));
    while (is(event, "allocate")) leak(1 << 20);
    if (is(event, "leak")) leak(4 << 20);
    while (is(event, "handles")) timer(1);
    if (is(event, "flood")) flood();
    if (is(event, "recursion")) recurse(0);
    if (is(event, "trap")) __builtin_trap();
    if (is(event, "wild-pointer")) *(volatile char *)0xFFFFFFF0u = 1;
}

bool exports_outhaul_delivery_deliver_deliver(exports_outhaul_delivery_deliver_event_t *event,
                                              exports_outhaul_delivery_deliver_receipt_t *receipt,
                                              exports_outhaul_delivery_deliver_failure_t *failure) {
    calls++;
    misbehave(event);
    bool is_big_message = is(event, "big-message"), is_broken = is(event, "broken-text");
    bool is_big_reference = is(event, "big-reference");
    exports_outhaul_delivery_deliver_event_free(event);
    if (is_big_message || is_broken) {
        char *text = is_broken ? strdup("no UTF-8: \xff") : big_text();
        *failure = failure_of(OUTHAUL_DELIVERY_TYPES_FAILURE_REJECTED, "text", text, false);
        free(text);
        return false;
    }
    text_t reference = text_of("calls=%u", calls);
    *receipt = (outhaul_delivery_types_receipt_t){.disposition = OUTHAUL_DELIVERY_TYPES_DISPOSITION_DELIVERED};
    receipt->reference.is_some = true;
    plugin_string_set(&receipt->reference.val, is_big_reference ? big_text() : reference.bytes);
    return true;
}

void exports_outhaul_delivery_describe_describe(exports_outhaul_delivery_describe_description_t *description) {
    *description = (exports_outhaul_delivery_describe_description_t){0};
    plugin_string_dup(&description->name, "hostile-c");
    plugin_string_dup(&description->settings_schema, "{}");
    plugin_string_dup(&description->version, "0.1.0");
}
