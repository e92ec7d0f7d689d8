// Text that grows, and what is written into it.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *bytes;  // always ends with a 0 that is not counted
    size_t length;
} text_t;

// The caller frees `bytes`.
[[gnu::format(printf, 1, 2)]] text_t text_of(const char *format, ...);

void text_add(text_t *text, const void *bytes, size_t length);
void text_add_base64(text_t *text, const uint8_t *bytes, size_t length);

// Puts '?' for each byte that is no UTF-8: the contract's texts are UTF-8, and the host ends an instance that
// says otherwise. `text` may be NULL.
void text_make_utf8(char *text);

// Takes white space from both ends. `text` may be NULL.
void text_trim(char *text);
