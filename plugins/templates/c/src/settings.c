#include "settings.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char URL_RULE[] = "must be an address such as https://example.com/hooks";

void settings_problem(problems_t *problems, const char *name, const char *message) {
    if (problems->count == PROBLEMS_MAX) return;
    // A JSON Pointer writes '~' as "~0" and '/' as "~1".
    char *pointer = malloc(name ? 2 * strlen(name) + 2 : 1), *to = pointer;
    if (name) *to++ = '/';
    for (; name && *name; name++) {
        bool is_special = *name == '~' || *name == '/';
        *to++ = is_special ? '~' : *name;
        if (is_special) *to++ = *name == '~' ? '0' : '1';
    }
    *to = 0;
    problems->all[problems->count++] = (problem_t){pointer, strdup(message)};
}

// Splits http[s]://AUTHORITY[/PATH][?QUERY].
static bool parse_url(const char *url, settings_t *settings) {
    settings->is_https = strncmp(url, "https://", 8) == 0;
    if (!settings->is_https && strncmp(url, "http://", 7) != 0) return false;
    const char *authority = url + (settings->is_https ? 8 : 7);
    size_t length = strcspn(authority, "/?");
    const char *rest = authority + length;
    for (const char *c = url; *c; c++) {
        if (*c <= ' ' || *c > '~' || *c == '#') return false;
    }
    if (length == 0 || memchr(authority, '@', length)) return false;
    settings->authority = strndup(authority, length);
    settings->path_with_query = malloc(strlen(rest) + 2);
    settings->path_with_query[0] = '/';
    strcpy(settings->path_with_query + (*rest != '/'), rest);
    return true;
}

static void read_setting(settings_t *settings, const char *name, json_value_t value, problems_t *problems) {
    if (strcmp(name, "url") == 0) {
        settings->url = value.string;
        if (value.kind != JSON_STRING || !parse_url(value.string, settings))
            settings_problem(problems, name, URL_RULE);
    } else if (strcmp(name, "timeout_ms") == 0) {
        settings->timeout_ms = (uint64_t)value.integer;
        if (value.kind != JSON_INTEGER || value.integer < 1)
            settings_problem(problems, name, "must be a whole number of milliseconds above 0");
    } else if (strcmp(name, "signing_secret") == 0) {
        settings->signing_secret = value.string;
        if (value.kind != JSON_STRING || !*value.string)
            settings_problem(problems, name, "must be the name of one of the destination's secrets");
    } else {
        settings_problem(problems, name, "unknown; the settings are url, timeout_ms, signing_secret");
    }
}

settings_t settings_parse(const char *text, size_t length, problems_t *problems) {
    settings_t settings = {0};
    json_t json = json_object(text, length);
    char *name;
    json_value_t value;
    bool has_url = false;
    while (json_next(&json, &name, &value)) {
        has_url = has_url || strcmp(name, "url") == 0;
        read_setting(&settings, name, value, problems);
    }
    if (!json.ok) settings_problem(problems, NULL, "must be a JSON object");
    else if (!has_url) settings_problem(problems, "url", URL_RULE);
    return settings;
}
