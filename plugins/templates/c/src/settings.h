// The destination's settings: the table `settings` of the operator's config, checked.
// settings.schema.json says the same to people and tools; keep the two together.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *url;
    bool is_https;          // its parts
    char *authority;        // host, or host:port
    char *path_with_query;  // begins with '/'
    uint64_t timeout_ms;    // 0: only the call's budget bounds a request
    char *signing_secret;   // NULL: requests are not signed
} settings_t;

// What is wrong with one setting: a JSON Pointer to it, and what would be right.
typedef struct {
    char *pointer, *message;
} problem_t;

enum { PROBLEMS_MAX = 16 };

typedef struct {
    problem_t all[PROBLEMS_MAX];
    size_t count;
} problems_t;

// Reads the settings; each thing wrong becomes a problem. An instance is configured once, so nothing is freed.
settings_t settings_parse(const char *json, size_t length, problems_t *problems);

// Adds a problem with the setting `name`; NULL for the settings as a whole.
void settings_problem(problems_t *problems, const char *name, const char *message);
