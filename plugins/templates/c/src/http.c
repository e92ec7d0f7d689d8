#include "http.h"

#include <stdlib.h>
#include <string.h>

#include "plugin.h"

// Of an answer's body, this much is kept for the person who reads the history ...
static const size_t EXCERPT_BYTES = 300;
// ... and this much is read, so that the connection can be used again. A longer or slower body costs more
// than a new connection does.
static const size_t DRAIN_BYTES = 256 * 1024;
static const uint64_t DRAIN_NS = 500 * 1000000ull;

static plugin_string_t string(const char *text) {
    return (plugin_string_t){(uint8_t *)text, strlen(text)};
}

static bool has_passed(uint64_t deadline) { return wasi_clocks_monotonic_clock_now() >= deadline; }

// Waits until one of them is ready or the time is up. `second` may be NULL.
static void wait(wasi_io_poll_own_pollable_t first, const wasi_io_poll_own_pollable_t *second, uint64_t deadline) {
    wasi_io_poll_own_pollable_t timer = wasi_clocks_monotonic_clock_subscribe_instant(deadline);
    wasi_io_poll_borrow_pollable_t all[3] = {wasi_io_poll_borrow_pollable(timer),
                                             wasi_io_poll_borrow_pollable(first)};
    if (second) all[2] = wasi_io_poll_borrow_pollable(*second);
    wasi_io_poll_list_borrow_pollable_t list = {all, second ? 3 : 2};
    plugin_list_u32_t ready;
    wasi_io_poll_poll(&list, &ready);
    plugin_list_u32_free(&ready);
    wasi_io_poll_pollable_drop_own(timer);
}

// What each of the standard's errors means, and its name.
static const struct {
    http_end_t end;
    const char *name;
} ERRORS[] = {
#define ERROR(tag, end, name) [WASI_HTTP_TYPES_ERROR_CODE_##tag] = {end, name}
    ERROR(DNS_TIMEOUT, UNREACHABLE, "dns-timeout"),
    ERROR(DNS_ERROR, UNREACHABLE, "dns-error"),
    ERROR(DESTINATION_NOT_FOUND, UNREACHABLE, "destination-not-found"),
    ERROR(DESTINATION_UNAVAILABLE, UNREACHABLE, "destination-unavailable"),
    ERROR(DESTINATION_IP_PROHIBITED, FORBIDDEN, "destination-ip-prohibited"),
    ERROR(DESTINATION_IP_UNROUTABLE, UNREACHABLE, "destination-ip-unroutable"),
    ERROR(CONNECTION_REFUSED, UNREACHABLE, "connection-refused"),
    ERROR(CONNECTION_TERMINATED, UNCERTAIN, "connection-terminated"),
    ERROR(CONNECTION_TIMEOUT, UNREACHABLE, "connection-timeout"),
    ERROR(CONNECTION_READ_TIMEOUT, UNCERTAIN, "connection-read-timeout"),
    ERROR(CONNECTION_WRITE_TIMEOUT, UNCERTAIN, "connection-write-timeout"),
    ERROR(CONNECTION_LIMIT_REACHED, UNREACHABLE, "connection-limit-reached"),
    ERROR(TLS_PROTOCOL_ERROR, UNREACHABLE, "tls-protocol-error"),
    ERROR(TLS_CERTIFICATE_ERROR, UNREACHABLE, "tls-certificate-error"),
    ERROR(TLS_ALERT_RECEIVED, UNREACHABLE, "tls-alert-received"),
    ERROR(HTTP_REQUEST_DENIED, FORBIDDEN, "http-request-denied"),
    ERROR(HTTP_REQUEST_BODY_SIZE, UNSENDABLE, "http-request-body-size"),
    ERROR(HTTP_REQUEST_URI_INVALID, UNSENDABLE, "http-request-uri-invalid"),
    ERROR(HTTP_REQUEST_URI_TOO_LONG, UNSENDABLE, "http-request-uri-too-long"),
    ERROR(HTTP_REQUEST_HEADER_SECTION_SIZE, UNSENDABLE, "http-request-header-section-size"),
    ERROR(HTTP_REQUEST_HEADER_SIZE, UNSENDABLE, "http-request-header-size"),
    ERROR(HTTP_RESPONSE_INCOMPLETE, UNCERTAIN, "http-response-incomplete"),
    ERROR(HTTP_RESPONSE_TIMEOUT, UNCERTAIN, "timeout"),
    ERROR(HTTP_PROTOCOL_ERROR, UNCERTAIN, "http-protocol-error"),
    ERROR(CONFIGURATION_ERROR, FORBIDDEN, "configuration-error"),
#undef ERROR
};

static http_result_t failed(http_end_t end, const char *code, const char *authority) {
    text_t message;
    switch (end) {
        case UNREACHABLE: message = text_of("%s can't be reached: %s", authority, code); break;
        case FORBIDDEN:
            message = text_of(
                "the host does not let this destination reach %s (%s); add its origin in a "
                "[[destination.NAME.http]] section, with  private = true  if its address is private",
                authority, code);
            break;
        case UNSENDABLE: message = text_of("the request can't be sent: %s", code); break;
        default: message = text_of("%s was sent the request, and no whole answer came: %s", authority, code);
    }
    return (http_result_t){.end = end, .code = code, .message = message.bytes};
}

static http_result_t explain(wasi_http_types_error_code_t *error, const char *authority) {
    bool is_known = error->tag < sizeof ERRORS / sizeof *ERRORS && ERRORS[error->tag].name;
    http_result_t result = is_known ? failed(ERRORS[error->tag].end, ERRORS[error->tag].name, authority)
                                    : failed(UNCERTAIN, "http-error", authority);
    wasi_http_types_error_code_free(error);
    return result;
}

// The request and its body; false if the host refuses a part of it.
static bool prepare(const settings_t *settings, const header_t *headers, size_t count, size_t length,
                    wasi_http_types_own_outgoing_request_t *request, wasi_http_types_own_outgoing_body_t *body) {
    // Without its length the body goes out in chunks, which some receivers do not take.
    text_t size = text_of("%zu", length);
    wasi_http_types_tuple2_field_name_field_value_t entries[count + 1];
    entries[count].f0 = string("content-length");
    entries[count].f1 = (wasi_http_types_field_value_t){(uint8_t *)size.bytes, size.length};
    for (size_t i = 0; i < count; i++) {
        entries[i].f0 = string(headers[i].name);
        entries[i].f1 = (wasi_http_types_field_value_t){(uint8_t *)headers[i].value, headers[i].length};
    }
    wasi_http_types_list_tuple2_field_name_field_value_t list = {entries, count + 1};
    wasi_http_types_own_fields_t fields;
    wasi_http_types_header_error_t refused;
    bool is_fine = wasi_http_types_static_fields_from_list(&list, &fields, &refused);
    free(size.bytes);
    if (!is_fine) return false;

    *request = wasi_http_types_constructor_outgoing_request(fields);
    wasi_http_types_borrow_outgoing_request_t self = wasi_http_types_borrow_outgoing_request(*request);
    wasi_http_types_method_t method = {.tag = WASI_HTTP_TYPES_METHOD_POST};
    wasi_http_types_scheme_t scheme = {
        .tag = settings->is_https ? WASI_HTTP_TYPES_SCHEME_HTTPS : WASI_HTTP_TYPES_SCHEME_HTTP};
    plugin_string_t authority = string(settings->authority), path = string(settings->path_with_query);
    is_fine = wasi_http_types_method_outgoing_request_set_method(self, &method) &&
              wasi_http_types_method_outgoing_request_set_scheme(self, &scheme) &&
              wasi_http_types_method_outgoing_request_set_authority(self, &authority) &&
              wasi_http_types_method_outgoing_request_set_path_with_query(self, &path) &&
              wasi_http_types_method_outgoing_request_body(self, body);
    if (!is_fine) wasi_http_types_outgoing_request_drop_own(*request);
    return is_fine;
}

static wasi_http_types_own_request_options_t options(uint64_t timeout_ns) {
    wasi_http_types_own_request_options_t options = wasi_http_types_constructor_request_options();
    wasi_http_types_borrow_request_options_t self = wasi_http_types_borrow_request_options(options);
    // Shorter than our own timer, so that the host can say that the request never left.
    uint64_t connect_ns = timeout_ns / 2;
    wasi_http_types_method_request_options_set_connect_timeout(self, &connect_ns);
    wasi_http_types_method_request_options_set_first_byte_timeout(self, &timeout_ns);
    return options;
}

// Writes until the body is out, or until an answer comes first; the answer then says why.
static void write_body(wasi_http_types_own_outgoing_body_t body, const uint8_t *bytes, size_t length,
                       wasi_io_poll_own_pollable_t answered, uint64_t deadline) {
    wasi_http_types_own_output_stream_t stream;
    if (!wasi_http_types_method_outgoing_body_write(wasi_http_types_borrow_outgoing_body(body), &stream)) {
        wasi_http_types_outgoing_body_drop_own(body);
        return;
    }
    wasi_io_streams_borrow_output_stream_t self = wasi_io_streams_borrow_output_stream(stream);
    wasi_io_poll_own_pollable_t writable = wasi_io_streams_method_output_stream_subscribe(self);
    wasi_io_streams_stream_error_t lost = {.tag = WASI_IO_STREAMS_STREAM_ERROR_CLOSED};
    uint64_t room;
    while (length > 0 && wasi_io_streams_method_output_stream_check_write(self, &room, &lost)) {
        if (room == 0) {
            wait(writable, &answered, deadline);
            bool is_answered = wasi_io_poll_method_pollable_ready(wasi_io_poll_borrow_pollable(answered));
            if (is_answered || has_passed(deadline)) break;
            continue;
        }
        plugin_list_u8_t chunk = {(uint8_t *)bytes, room < length ? (size_t)room : length};
        if (!wasi_io_streams_method_output_stream_write(self, &chunk, &lost)) break;
        bytes += chunk.len;
        length -= chunk.len;
    }
    wasi_io_streams_stream_error_free(&lost);  // The connection is gone; the answer's error says why.
    wasi_io_poll_pollable_drop_own(writable);
    wasi_io_streams_output_stream_drop_own(stream);
    wasi_http_types_error_code_t error;
    if (length > 0) wasi_http_types_outgoing_body_drop_own(body);
    else if (!wasi_http_types_static_outgoing_body_finish(body, NULL, &error)) wasi_http_types_error_code_free(&error);
}

// The first value of a header, or NULL.
static char *header(wasi_http_types_own_fields_t fields, const char *name) {
    plugin_string_t wanted = string(name);
    wasi_http_types_list_field_value_t values;
    wasi_http_types_method_fields_get(wasi_http_types_borrow_fields(fields), &wanted, &values);
    char *value = values.len > 0 ? strndup((char *)values.ptr[0].ptr, values.ptr[0].len) : NULL;
    wasi_http_types_list_field_value_free(&values);
    return value;
}

// Reads the body for its beginning and for the connection's sake. The status is known already, so nothing
// that goes wrong here changes what the answer means.
static char *drain(wasi_http_types_own_input_stream_t stream, uint64_t deadline) {
    uint64_t soon = wasi_clocks_monotonic_clock_now() + DRAIN_NS;
    if (soon > deadline) soon = deadline;
    wasi_io_streams_borrow_input_stream_t self = wasi_io_streams_borrow_input_stream(stream);
    wasi_io_poll_own_pollable_t readable = wasi_io_streams_method_input_stream_subscribe(self);
    text_t excerpt = text_of("%s", "");
    for (size_t total = 0; total < DRAIN_BYTES && !has_passed(soon);) {
        wait(readable, NULL, soon);
        plugin_list_u8_t chunk;
        wasi_io_streams_stream_error_t end;
        if (!wasi_io_streams_method_input_stream_read(self, 16 * 1024, &chunk, &end)) {
            wasi_io_streams_stream_error_free(&end);
            break;
        }
        size_t room = total < EXCERPT_BYTES ? EXCERPT_BYTES - total : 0;
        text_add(&excerpt, chunk.ptr, chunk.len < room ? chunk.len : room);
        total += chunk.len;
        plugin_list_u8_free(&chunk);
    }
    wasi_io_poll_pollable_drop_own(readable);
    return excerpt.bytes;
}

static http_result_t read_answer(wasi_http_types_own_incoming_response_t response, uint64_t deadline) {
    wasi_http_types_borrow_incoming_response_t self = wasi_http_types_borrow_incoming_response(response);
    http_result_t result = {.end = ANSWERED, .status = wasi_http_types_method_incoming_response_status(self)};
    wasi_http_types_own_headers_t headers = wasi_http_types_method_incoming_response_headers(self);
    result.retry_after = header(headers, "retry-after");
    result.location = header(headers, "location");
    wasi_http_types_fields_drop_own(headers);
    wasi_http_types_own_incoming_body_t body;
    wasi_http_types_own_input_stream_t stream;
    if (wasi_http_types_method_incoming_response_consume(self, &body)) {
        if (wasi_http_types_method_incoming_body_stream(wasi_http_types_borrow_incoming_body(body), &stream)) {
            result.excerpt = drain(stream, deadline);
            wasi_io_streams_input_stream_drop_own(stream);
        }
        wasi_http_types_incoming_body_drop_own(body);
    }
    wasi_http_types_incoming_response_drop_own(response);
    return result;
}

http_result_t http_post(const settings_t *settings, const header_t *headers, size_t header_count,
                        const uint8_t *body, size_t length, uint64_t timeout_ms) {
    const char *authority = settings->authority;
    uint64_t timeout_ns = timeout_ms * 1000000, deadline = wasi_clocks_monotonic_clock_now() + timeout_ns;
    wasi_http_types_own_outgoing_request_t request;
    wasi_http_types_own_outgoing_body_t outgoing;
    if (!prepare(settings, headers, header_count, length, &request, &outgoing))
        return failed(UNSENDABLE, "invalid-request", authority);

    wasi_http_outgoing_handler_own_request_options_t request_options = options(timeout_ns);
    wasi_http_types_own_future_incoming_response_t future;
    wasi_http_types_error_code_t error;
    if (!wasi_http_outgoing_handler_handle(request, &request_options, &future, &error)) {
        wasi_http_types_outgoing_body_drop_own(outgoing);
        return explain(&error, authority);
    }
    wasi_http_types_borrow_future_incoming_response_t self = wasi_http_types_borrow_future_incoming_response(future);
    wasi_io_poll_own_pollable_t answered = wasi_http_types_method_future_incoming_response_subscribe(self);
    write_body(outgoing, body, length, answered, deadline);
    wait(answered, NULL, deadline);
    wasi_io_poll_pollable_drop_own(answered);

    wasi_http_types_result_result_own_incoming_response_error_code_void_t answer;
    http_result_t result;
    if (!wasi_http_types_method_future_incoming_response_get(self, &answer))
        result = failed(UNCERTAIN, "timeout", authority);
    else if (answer.is_err) result = failed(UNCERTAIN, "http-error", authority);
    else if (answer.val.ok.is_err) result = explain(&answer.val.ok.val.err, authority);
    else result = read_answer(answer.val.ok.val.ok, deadline);
    wasi_http_types_future_incoming_response_drop_own(future);
    return result;
}

void http_result_free(http_result_t *result) {
    free(result->retry_after);
    free(result->location);
    free(result->excerpt);
    free(result->message);
}
