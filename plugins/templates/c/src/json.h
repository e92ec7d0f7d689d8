// As much of JSON as settings need: the names and values of one object.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { JSON_STRING, JSON_INTEGER, JSON_OTHER } json_kind_t;

typedef struct {
    json_kind_t kind;
    char *string;     // of JSON_STRING
    int64_t integer;  // of JSON_INTEGER
} json_value_t;

// Where the reader is. Text that isn't JSON, or no object, ends the object and leaves `ok` false.
typedef struct {
    const char *at, *end;
    bool ok;
} json_t;

json_t json_object(const char *text, size_t length);

// The next name and value; false at the object's end. The caller frees `name` and `value->string`.
bool json_next(json_t *json, char **name, json_value_t *value);
