#include "json.h"

#include <stdlib.h>
#include <string.h>

static void skip_space(json_t *json) {
    while (json->at < json->end && strchr(" \t\r\n", *json->at)) json->at++;
}

static bool take(json_t *json, char wanted) {
    skip_space(json);
    if (json->at == json->end || *json->at != wanted) return false;
    json->at++;
    return true;
}

static bool fail(json_t *json) {
    json->ok = false;
    return false;
}

json_t json_object(const char *text, size_t length) {
    json_t json = {.at = text, .end = text + length, .ok = true};
    json.ok = take(&json, '{');
    return json;
}

// Four hexadecimal digits.
static bool take_unit(json_t *json, uint32_t *unit) {
    if (json->end - json->at < 4) return false;
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = memchr(digits, *json->at | ((*json->at > '9') ? 32 : 0), 16);
        if (!digit) return false;
        *unit = *unit * 16 + (uint32_t)(digit - digits);
        json->at++;
    }
    return true;
}

static char *put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xC0, 0xE0, 0xF0};
    *to++ = (char)(lead[more] | c >> (6 * more));
    while (more-- > 0) *to++ = (char)(0x80 | (c >> (6 * more) & 0x3F));
    return to;
}

// After `\u`: one unit, or the two of a character above U+FFFF.
static bool take_escaped(json_t *json, char **to) {
    uint32_t c, low;
    if (!take_unit(json, &c)) return false;
    if (c >= 0xD800 && c < 0xDC00) {
        if (json->end - json->at < 2 || memcmp(json->at, "\\u", 2) != 0) return false;
        json->at += 2;
        if (!take_unit(json, &low) || low < 0xDC00 || low > 0xDFFF) return false;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (c == 0) return false;  // It would end a C string too early.
    *to = put_utf8(*to, c);
    return true;
}

static char *take_string(json_t *json) {
    if (!take(json, '"')) return NULL;
    // No escape is shorter than what it stands for.
    char *text = malloc((size_t)(json->end - json->at) + 1), *to = text;
    while (json->at < json->end && *json->at != '"') {
        char c = *json->at++;
        if (c != '\\') {
            *to++ = c;
            continue;
        }
        static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
        const char *name = json->at < json->end ? memchr(names, *json->at, 8) : NULL;
        bool is_unicode = json->at < json->end && *json->at == 'u';
        json->at++;
        if (name) *to++ = values[name - names];
        else if (!is_unicode || !take_escaped(json, &to)) goto broken;
    }
    *to = 0;
    if (take(json, '"')) return text;
broken:
    free(text);
    return NULL;
}

// A number, true, false, null, or something nested, which is passed over.
static bool take_other(json_t *json, json_value_t *value) {
    const char *start = json->at;
    int depth = 0;
    while (json->at < json->end) {
        char c = *json->at;
        if (c == '"') {
            char *inner = take_string(json);
            if (!inner) return false;
            free(inner);
            continue;
        }
        if (depth == 0 && strchr(",} \t\r\n", c)) break;
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        json->at++;
    }
    if (json->at == start || depth != 0) return false;
    // At most 18 digits fit without a look at overflow.
    const char *digit = start + (*start == '-');
    bool is_integer = json->at > digit && json->at - digit <= 18;
    int64_t number = 0;
    for (; digit < json->at && is_integer; digit++) {
        is_integer = *digit >= '0' && *digit <= '9';
        number = number * 10 + (*digit - '0');
    }
    value->kind = is_integer ? JSON_INTEGER : JSON_OTHER;
    value->integer = *start == '-' ? -number : number;
    return true;
}

bool json_next(json_t *json, char **name, json_value_t *value) {
    if (!json->ok || take(json, '}')) return false;
    take(json, ',');
    *value = (json_value_t){.kind = JSON_STRING};
    *name = take_string(json);
    if (!*name) return fail(json);
    bool has_value = take(json, ':');
    skip_space(json);
    if (has_value && json->at < json->end && *json->at == '"') {
        value->string = take_string(json);
        has_value = value->string != NULL;
    } else {
        has_value = has_value && take_other(json, value);
    }
    if (has_value) return true;
    free(*name);
    return fail(json);
}
