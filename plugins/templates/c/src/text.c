#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

text_t text_of(const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *bytes = malloc((size_t)length + 1);
    vsnprintf(bytes, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return (text_t){bytes, (size_t)length};
}

void text_add(text_t *text, const void *bytes, size_t length) {
    text->bytes = realloc(text->bytes, text->length + length + 1);
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = 0;
}

void text_add_base64(text_t *text, const uint8_t *bytes, size_t length) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t at = 0; at < length; at += 3) {
        size_t left = length - at;
        uint32_t three = (uint32_t)bytes[at] << 16;
        if (left > 1) three |= (uint32_t)bytes[at + 1] << 8;
        if (left > 2) three |= bytes[at + 2];
        char four[4];
        for (int i = 0; i < 4; i++) four[i] = digits[three >> (18 - 6 * i) & 63];
        if (left < 3) four[3] = '=';
        if (left < 2) four[2] = '=';
        text_add(text, four, 4);
    }
}

// The length of the character that `at` begins with; 0 if it is none. A 0 byte ends any character.
static int character(const uint8_t *at) {
    static const struct {
        uint8_t lead_min, lead_max, second_min, second_max, length;
    } FORMS[] = {
        {0x01, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        if (at[0] < FORMS[i].lead_min || at[0] > FORMS[i].lead_max) continue;
        if (FORMS[i].length == 1) return 1;
        if (at[1] < FORMS[i].second_min || at[1] > FORMS[i].second_max) return 0;
        for (int n = 2; n < FORMS[i].length; n++) {
            if ((at[n] & 0xC0) != 0x80) return 0;
        }
        return FORMS[i].length;
    }
    return 0;
}

void text_make_utf8(char *text) {
    for (uint8_t *at = (uint8_t *)text; at && *at;) {
        int length = character(at);
        if (length == 0) *at = '?';
        at += length ? length : 1;
    }
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void text_trim(char *text) {
    if (!text) return;
    const char *start = text;
    while (is_space(*start)) start++;
    size_t length = strlen(start);
    while (length > 0 && is_space(start[length - 1])) length--;
    memmove(text, start, length);
    text[length] = 0;
}
