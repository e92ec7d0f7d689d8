// my-plugin: posts each event to one URL.
//
// Outhaul calls `configure` once for each instance, and then `deliver` for one event after another. What
// `deliver` returns decides what becomes of the event; failures.h has every choice.
//
// C has no exceptions. A bug that the program notices can still be a failure with a message (`failure_of`); one
// that it does not notice, such as a null pointer followed, may trap: then the host drops this instance, counts an
// attempt, and the next event finds a fresh one. Nothing else on the host is touched by it.

#include "plugin.h"

#include <stdlib.h>
#include <string.h>

#include "failures.h"
#include "http.h"
#include "settings.h"
#include "text.h"

static const char NAME[] = "my-plugin", VERSION[] = "0.1.0";
static const char SCHEMA[] = {
#embed "../settings.schema.json"
    , 0};

// What `configure` read. Nothing else is kept from one event to the next.
static settings_t settings;

static plugin_string_t owned(const char *text) {
    plugin_string_t string;
    plugin_string_dup(&string, text);
    return string;
}

static plugin_string_t borrowed(const char *text) { return (plugin_string_t){(uint8_t *)text, strlen(text)}; }

static void log_line(outhaul_log_log_level_t level, text_t text) {
    plugin_string_t line = {(uint8_t *)text.bytes, text.length};
    outhaul_log_log_log(level, &line);
    free(text.bytes);
}

// One signature for each of the secret's keys, so that receivers can rotate.
static bool sign(const uint8_t *data, size_t length, outhaul_secrets_secrets_list_signature_t *signatures,
                 outhaul_secrets_secrets_secret_error_t *error) {
    plugin_string_t name = borrowed(settings.signing_secret), algorithm = borrowed("hmac-sha256");
    plugin_list_u8_t bytes = {(uint8_t *)data, length};
    return outhaul_secrets_secrets_sign(&name, &algorithm, &bytes, signatures, error);
}

static char *message_of(const outhaul_secrets_secrets_secret_error_t *error) {
    // Each of its kinds has one text.
    return strndup((char *)error->val.denied.ptr, error->val.denied.len);
}

// A missing grant shows when the plugin is loaded, not when the first event comes. True if all is fine or if
// that will show later.
static bool try_signing(problems_t *problems, plugin_string_t *unavailable) {
    outhaul_secrets_secrets_list_signature_t signatures;
    outhaul_secrets_secrets_secret_error_t error;
    if (sign(NULL, 0, &signatures, &error)) {
        outhaul_secrets_secrets_list_signature_free(&signatures);
        return true;
    }
    char *message = message_of(&error);
    bool is_unusable = error.tag == OUTHAUL_SECRETS_SECRETS_SECRET_ERROR_UNUSABLE;
    outhaul_secrets_secrets_secret_error_free(&error);
    // A key that can't be read now may be there in a moment.
    if (is_unusable) *unavailable = owned(message);
    else settings_problem(problems, "signing_secret", message);
    free(message);
    return !is_unusable;
}

bool exports_outhaul_delivery_deliver_configure(plugin_string_t *settings_json,
                                                outhaul_delivery_types_configure_error_t *error) {
    problems_t problems = {0};
    settings = settings_parse((char *)settings_json->ptr, settings_json->len, &problems);
    plugin_string_free(settings_json);
    if (problems.count == 0 && settings.signing_secret && !try_signing(&problems, &error->val.unavailable)) {
        error->tag = OUTHAUL_DELIVERY_TYPES_CONFIGURE_ERROR_UNAVAILABLE;
        return false;
    }
    if (problems.count == 0) {
        log_line(OUTHAUL_LOG_LOG_LEVEL_INFO, text_of("posting to %s", settings.url));
        return true;
    }
    error->tag = OUTHAUL_DELIVERY_TYPES_CONFIGURE_ERROR_SETTINGS;
    outhaul_delivery_types_list_settings_problem_t *list = &error->val.settings;
    list->len = problems.count;
    list->ptr = malloc(problems.count * sizeof *list->ptr);
    for (size_t i = 0; i < problems.count; i++) {
        list->ptr[i].pointer = owned(problems.all[i].pointer);
        list->ptr[i].message = owned(problems.all[i].message);
    }
    return false;
}

// Less than the call may take, so that there is time to report; and no more than the operator set.
static uint64_t timeout_ms(uint64_t budget_ms) {
    uint64_t margin = budget_ms / 20;
    if (margin < 100) margin = 100;
    if (margin > 1000) margin = 1000;
    if (margin > budget_ms / 2) margin = budget_ms / 2;
    uint64_t most = budget_ms - margin;
    return settings.timeout_ms > 0 && settings.timeout_ms < most ? settings.timeout_ms : most;
}

// As standardwebhooks.com has it: base64 of HMAC-SHA256 over "id.timestamp.body".
static bool signature(const char *id, const char *timestamp, plugin_list_u8_t payload, text_t *header,
                      failure_t *failure) {
    text_t data = text_of("%s.%s.", id, timestamp);
    text_add(&data, payload.ptr, payload.len);
    outhaul_secrets_secrets_list_signature_t signatures;
    outhaul_secrets_secrets_secret_error_t error;
    bool is_signed = sign((uint8_t *)data.bytes, data.length, &signatures, &error);
    free(data.bytes);
    if (!is_signed) {
        char *message = message_of(&error);
        *failure = failure_of(OUTHAUL_DELIVERY_TYPES_FAILURE_MISCONFIGURED, "signing", message, false);
        free(message);
        outhaul_secrets_secrets_secret_error_free(&error);
        return false;
    }
    for (size_t i = 0; i < signatures.len; i++) {
        text_add(header, i ? " v1," : "v1,", i ? 4 : 3);
        text_add_base64(header, signatures.ptr[i].bytes.ptr, signatures.ptr[i].bytes.len);
    }
    outhaul_secrets_secrets_list_signature_free(&signatures);
    return true;
}

static bool attempt(const outhaul_delivery_types_event_t *event, outhaul_delivery_types_receipt_t *receipt,
                    failure_t *failure) {
    wasi_clocks_wall_clock_datetime_t now;
    wasi_clocks_wall_clock_now(&now);
    text_t id = text_of("%.*s", (int)event->dedup_id.len, event->dedup_id.ptr);
    text_t timestamp = text_of("%llu", (unsigned long long)now.seconds);
    text_t agent = text_of("%s/%s", NAME, VERSION), signed_by = text_of("%s", "");
    header_t headers[] = {
        {"content-type", event->content_type.ptr, event->content_type.len},
        {"user-agent", agent.bytes, agent.length},
        // The same on every attempt: a receiver that remembers it can tell a repeated delivery.
        {"webhook-id", id.bytes, id.length},
        {"webhook-timestamp", timestamp.bytes, timestamp.length},
        {"webhook-signature", NULL, 0},
    };
    bool is_fine = true, is_signing = settings.signing_secret != NULL;
    if (is_signing) is_fine = signature(id.bytes, timestamp.bytes, event->payload, &signed_by, failure);
    headers[4].value = signed_by.bytes;
    headers[4].length = signed_by.length;
    if (is_fine) {
        http_result_t result = http_post(&settings, headers, is_signing ? 5 : 4, event->payload.ptr,
                                         event->payload.len, timeout_ms(event->budget_ms));
        is_fine = !failure_of_result(&result, failure);
        if (is_fine) {
            text_make_utf8(result.location);
            *receipt = (outhaul_delivery_types_receipt_t){.disposition = OUTHAUL_DELIVERY_TYPES_DISPOSITION_DELIVERED};
            receipt->reference.is_some = result.location != NULL;
            if (result.location) receipt->reference.val = owned(result.location);
        }
        http_result_free(&result);
    }
    free(id.bytes);
    free(timestamp.bytes);
    free(agent.bytes);
    free(signed_by.bytes);
    return is_fine;
}

bool exports_outhaul_delivery_deliver_deliver(exports_outhaul_delivery_deliver_event_t *event,
                                              exports_outhaul_delivery_deliver_receipt_t *receipt,
                                              exports_outhaul_delivery_deliver_failure_t *failure) {
    bool is_delivered = attempt(event, receipt, failure);
    exports_outhaul_delivery_deliver_event_free(event);
    return is_delivered;
}

// Optional: what the plugin says of itself. Called without `configure`.
void exports_outhaul_delivery_describe_describe(exports_outhaul_delivery_describe_description_t *description) {
    *description = (exports_outhaul_delivery_describe_description_t){
        .name = owned(NAME), .version = owned(VERSION), .settings_schema = owned(SCHEMA)};
    description->needs.len = 2;
    description->needs.ptr = malloc(2 * sizeof *description->needs.ptr);
    description->needs.ptr[0] = (exports_outhaul_delivery_describe_need_t){
        .capability = owned("http"), .name = owned(""), .purpose = owned("the origin of the setting url")};
    exports_outhaul_delivery_describe_need_t *key = &description->needs.ptr[1];
    *key = (exports_outhaul_delivery_describe_need_t){
        .capability = owned("secret"), .name = owned(""), .optional = true,
        .purpose = owned("the key named by the setting signing_secret")};
    key->uses.len = 1;
    key->uses.ptr = malloc(sizeof *key->uses.ptr);
    key->uses.ptr[0] = owned("hmac-sha256");
}
