// Misdeeds of a plugin in C, named by the event's topic. It takes the place of the template's plugin.c.

#include "plugin.h"

#include <stdlib.h>
#include <string.h>

#include "failures.h"

static unsigned calls;

static bool is(const outhaul_delivery_types_event_t *event, const char *topic) {
    return event->topic.len == strlen(topic) && memcmp(event->topic.ptr, topic, event->topic.len) == 0;
}

// Not folded away, whatever the optimiser thinks of it.
static volatile unsigned always = 1;

[[clang::noinline]] static unsigned recurse(unsigned depth) {
    volatile char frame[512];
    memset((char *)frame, (int)depth, sizeof frame);
    return always ? recurse(depth + 1) + (unsigned)frame[depth % sizeof frame] : depth;
}

static void allocate(void) {
    for (;;) {
        char *block = malloc(1 << 20);
        if (!block) __builtin_trap();
        memset(block, 1, 1 << 20);
    }
}

static void flood_log(void) {
    for (int line = 0; line < 100000; line++) {
        plugin_string_t text = {(uint8_t *)"a line\nand another", 18};
        outhaul_log_log_log(OUTHAUL_LOG_LOG_LEVEL_INFO, &text);
    }
}

static char *big_text(void) {
    char *text = malloc(10000001);
    memset(text, 'x', 10000000);
    text[10000000] = 0;
    return text;
}

bool exports_outhaul_delivery_deliver_configure(plugin_string_t *settings_json,
                                                outhaul_delivery_types_configure_error_t *error) {
    (void)error;
    plugin_string_free(settings_json);
    return true;
}

bool exports_outhaul_delivery_deliver_deliver(exports_outhaul_delivery_deliver_event_t *event,
                                              exports_outhaul_delivery_deliver_receipt_t *receipt,
                                              exports_outhaul_delivery_deliver_failure_t *failure) {
    calls++;
    while (is(event, "spin") && always) {}
    if (is(event, "trap")) __builtin_trap();
    if (is(event, "wild-pointer")) *(volatile char *)0xFFFFFFF0u = 1;
    if (is(event, "recursion")) recurse(0);
    if (is(event, "allocate")) allocate();
    if (is(event, "flood-log")) flood_log();
    bool is_big = is(event, "big-text"), is_broken = is(event, "broken-text");
    exports_outhaul_delivery_deliver_event_free(event);
    if (is_big || is_broken) {
        char *text = is_big ? big_text() : strdup("no UTF-8: \xff");
        *failure = failure_of(OUTHAUL_DELIVERY_TYPES_FAILURE_REJECTED, "text", text, false);
        free(text);
        return false;
    }
    text_t reference = text_of("calls=%u", calls);
    *receipt = (outhaul_delivery_types_receipt_t){.disposition = OUTHAUL_DELIVERY_TYPES_DISPOSITION_DELIVERED};
    receipt->reference.is_some = true;
    receipt->reference.val = (plugin_string_t){(uint8_t *)reference.bytes, reference.length};
    return true;
}

void exports_outhaul_delivery_describe_describe(exports_outhaul_delivery_describe_description_t *description) {
    *description = (exports_outhaul_delivery_describe_description_t){0};
    plugin_string_dup(&description->name, "hostile-c");
    plugin_string_dup(&description->settings_schema, "{}");
    plugin_string_dup(&description->version, "0.1.0");
}
