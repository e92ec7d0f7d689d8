// POST through `wasi:http`, bounded in time. Nothing here needs changing for an ordinary destination.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "settings.h"
#include "text.h"

typedef struct {
    const char *name;
    const void *value;
    size_t length;
} header_t;

typedef enum {
    ANSWERED,
    UNREACHABLE,  // it never left
    FORBIDDEN,    // the operator's config does not allow it
    UNSENDABLE,   // no host would send it
    UNCERTAIN,    // it left, and may have arrived
} http_end_t;

// Free with http_result_free. What an answer did not have is NULL.
typedef struct {
    http_end_t end;
    uint16_t status;                          // of ANSWERED, as are the next three
    char *retry_after, *location, *excerpt;
    const char *code;                         // of all others: a word for machines, a sentence for people
    char *message;
} http_result_t;

http_result_t http_post(const settings_t *settings, const header_t *headers, size_t header_count,
                        const uint8_t *body, size_t length, uint64_t timeout_ms);
void http_result_free(http_result_t *result);
