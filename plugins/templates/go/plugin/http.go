package plugin

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	clock "my-plugin/bindings/imports/wasi_clocks_monotonic_clock"
	handler "my-plugin/bindings/imports/wasi_http_outgoing_handler"
	http "my-plugin/bindings/imports/wasi_http_types"
	io "my-plugin/bindings/imports/wasi_io_poll"
	streams "my-plugin/bindings/imports/wasi_io_streams"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

// POST through `wasi:http`, bounded in time. Nothing here needs changing for an ordinary destination.
//
// Go's own net/http opens sockets, which a plugin does not have; the host makes the connection, from its
// pool and with its TLS. What the host lends (`Drop`) is given back; an instance may hold only so much.

const (
	// Of an answer's body, this much is kept for the person who reads the history ...
	excerptBytes = 300
	// ... and this much is read, so that the connection can be used again. A longer or slower body costs
	// more than a new connection does.
	drainBytes = 256 * 1024
	drainTime  = 500 * time.Millisecond
)

// A Header of a request.
type Header struct{ Name, Value string }

// An Answer; what it did not have is empty.
type Answer struct {
	Status     uint16
	RetryAfter string
	Location   string
	Excerpt    string
}

// A Request on its way.
type Request struct {
	authority string
	future    *http.FutureIncomingResponse
	deadline  deadline
}

// A deadline is a moment of the monotonic clock.
type deadline uint64

func after(time time.Duration) deadline { return deadline(clock.Now() + uint64(time)) }

// within is less than the call may take, so that there is time to report, and no more than the operator set.
func within(budgetMs uint64) deadline {
	budget := time.Duration(budgetMs) * time.Millisecond
	margin := min(max(budget/20, 100*time.Millisecond), time.Second, budget/2)
	most := budget - margin
	if settings.Timeout > 0 {
		return after(min(settings.Timeout, most))
	}
	return after(most)
}

func (at deadline) remaining() time.Duration {
	if now := deadline(clock.Now()); now < at {
		return time.Duration(at - now)
	}
	return 0
}

// wait returns once one of them is ready, or false once the time is up.
func (at deadline) wait(pollables ...*io.Pollable) bool {
	timer := clock.SubscribeInstant(uint64(at))
	defer timer.Drop()
	for _, ready := range io.Poll(append(pollables, timer)) {
		if int(ready) < len(pollables) {
			return true
		}
	}
	return false
}

// Post sends the request's head and body, and does not wait for the answer.
func Post(target *url.URL, headers []Header, body []byte, deadline deadline) (*Request, error) {
	// Without its length the body goes out in chunks, which some receivers do not take.
	headers = append(headers, Header{"content-length", strconv.Itoa(len(body))})
	request, err := prepare(target, headers)
	if err != nil {
		return nil, err
	}
	outgoing := request.Body().Ok()
	defer outgoing.Drop() // does nothing once it is finished
	handled := handler.Handle(request, wit.Some(options(deadline.remaining())))
	if handled.IsErr() {
		return nil, explain(handled.Err(), target.Host)
	}
	future := handled.Ok()
	if write(outgoing, body, future, deadline) {
		http.OutgoingBodyFinish(outgoing, wit.None[*http.Fields]()) // An error is the answer's error too.
	}
	return &Request{target.Host, future, deadline}, nil
}

func prepare(target *url.URL, headers []Header) (*http.OutgoingRequest, error) {
	entries := make([]wit.Tuple2[string, []byte], len(headers))
	for i, header := range headers {
		entries[i] = wit.Tuple2[string, []byte]{F0: header.Name, F1: []byte(header.Value)}
	}
	fields := http.FieldsFromList(entries)
	if fields.IsErr() {
		return nil, &Failure{Kind: Rejected, Code: "invalid-header", Message: "the host refuses a header of the request"}
	}
	scheme := http.MakeSchemeHttp()
	if target.Scheme == "https" {
		scheme = http.MakeSchemeHttps()
	}
	request := http.MakeOutgoingRequest(fields.Ok())
	if request.SetMethod(http.MakeMethodPost()).IsErr() ||
		request.SetScheme(wit.Some(scheme)).IsErr() ||
		request.SetAuthority(wit.Some(target.Host)).IsErr() ||
		request.SetPathWithQuery(wit.Some(target.RequestURI())).IsErr() {
		request.Drop()
		return nil, &Failure{Kind: Misconfigured, Code: "invalid-url", Message: "the host refuses the setting url"}
	}
	return request, nil
}

func options(timeout time.Duration) *http.RequestOptions {
	options := http.MakeRequestOptions()
	// Shorter than our own timer, so that the host can say that the request never left.
	options.SetConnectTimeout(wit.Some(uint64(timeout / 2)))
	options.SetFirstByteTimeout(wit.Some(uint64(timeout)))
	return options
}

// write goes on until the body is out, which it returns, or until an answer comes first, which says why.
func write(outgoing *http.OutgoingBody, body []byte, future *http.FutureIncomingResponse, deadline deadline) bool {
	stream := outgoing.Write().Ok()
	defer stream.Drop()
	writable := stream.Subscribe()
	defer writable.Drop()
	answered := future.Subscribe()
	defer answered.Drop()
	for len(body) > 0 {
		room := stream.CheckWrite()
		if room.IsErr() {
			return dropped(room.Err())
		}
		if room.Ok() == 0 {
			if !deadline.wait(writable, answered) || answered.Ready() {
				return false
			}
			continue
		}
		chunk := body[:min(room.Ok(), uint64(len(body)))]
		if written := stream.Write(chunk); written.IsErr() {
			return dropped(written.Err())
		}
		body = body[len(chunk):]
	}
	return true
}

// dropped gives back what comes with a stream's error. The answer's error says more.
func dropped(err streams.StreamError) bool {
	if err.Tag() == streams.StreamError_LastOperationFailed {
		err.LastOperationFailed().Drop()
	}
	return false
}

// Answer waits for it.
func (request *Request) Answer() (*Answer, error) {
	defer request.future.Drop()
	answered := request.future.Subscribe()
	request.deadline.wait(answered)
	answered.Drop()
	got := request.future.Get()
	if got.IsNone() || got.Some().IsErr() {
		message := request.authority + " was sent the request and did not answer in time"
		return nil, &Failure{Kind: Retry, Code: "timeout", Message: message, MaybeApplied: true}
	}
	if got.Some().Ok().IsErr() {
		return nil, explain(got.Some().Ok().Err(), request.authority)
	}
	response := got.Some().Ok().Ok()
	defer response.Drop()
	fields := response.Headers()
	defer fields.Drop()
	return &Answer{
		Status:     response.Status(),
		RetryAfter: first(fields, "retry-after"),
		Location:   first(fields, "location"),
		Excerpt:    drain(response, request.deadline),
	}, nil
}

func first(fields *http.Fields, name string) string {
	if values := fields.Get(name); len(values) > 0 {
		return string(values[0])
	}
	return ""
}

// drain reads the body for its beginning and for the connection's sake. The status is known already, so
// nothing that goes wrong here changes what the answer means.
func drain(response *http.IncomingResponse, deadline deadline) string {
	body := response.Consume().Ok()
	defer body.Drop()
	stream := body.Stream().Ok()
	defer stream.Drop()
	readable := stream.Subscribe()
	defer readable.Drop()
	soon := min(deadline, after(drainTime))
	var excerpt []byte
	for total := 0; total < drainBytes && soon.wait(readable); {
		read := stream.Read(16 * 1024)
		if read.IsErr() {
			dropped(read.Err()) // The body's end, most often.
			break
		}
		chunk := read.Ok()
		excerpt = append(excerpt, chunk[:min(len(chunk), excerptBytes-len(excerpt))]...)
		total += len(chunk)
	}
	return strings.TrimSpace(string(excerpt))
}

// explain says whether the request may have left, and why there is no answer.
func explain(err http.ErrorCode, authority string) *Failure {
	code, isKnown := codes[err.Tag()]
	if !isKnown {
		code = "http-error"
	}
	switch err.Tag() {
	case http.ErrorCode_DnsTimeout, http.ErrorCode_DnsError, http.ErrorCode_DestinationNotFound,
		http.ErrorCode_DestinationUnavailable, http.ErrorCode_DestinationIpUnroutable,
		http.ErrorCode_ConnectionRefused, http.ErrorCode_ConnectionTimeout, http.ErrorCode_ConnectionLimitReached,
		http.ErrorCode_TlsProtocolError, http.ErrorCode_TlsCertificateError, http.ErrorCode_TlsAlertReceived:
		return &Failure{Kind: Unavailable, Code: code, Message: fmt.Sprintf("%s can't be reached: %s", authority, code)}
	case http.ErrorCode_HttpRequestDenied, http.ErrorCode_DestinationIpProhibited, http.ErrorCode_ConfigurationError:
		message := fmt.Sprintf("the host does not let this destination reach %s (%s); add its origin in a "+
			"[[destination.NAME.http]] section, with  private = true  if its address is private", authority, code)
		return &Failure{Kind: Misconfigured, Code: code, Message: message}
	case http.ErrorCode_HttpRequestBodySize, http.ErrorCode_HttpRequestHeaderSectionSize,
		http.ErrorCode_HttpRequestHeaderSize, http.ErrorCode_HttpRequestUriInvalid, http.ErrorCode_HttpRequestUriTooLong:
		return &Failure{Kind: Rejected, Code: code, Message: "the request can't be sent: " + code}
	default:
		message := fmt.Sprintf("%s was sent the request, and no whole answer came: %s", authority, code)
		return &Failure{Kind: Retry, Code: code, Message: message, MaybeApplied: true}
	}
}

// The standard's errors that say something to a person.
var codes = map[uint8]string{
	http.ErrorCode_DnsTimeout:                   "dns-timeout",
	http.ErrorCode_DnsError:                     "dns-error",
	http.ErrorCode_DestinationNotFound:          "destination-not-found",
	http.ErrorCode_DestinationUnavailable:       "destination-unavailable",
	http.ErrorCode_DestinationIpProhibited:      "destination-ip-prohibited",
	http.ErrorCode_DestinationIpUnroutable:      "destination-ip-unroutable",
	http.ErrorCode_ConnectionRefused:            "connection-refused",
	http.ErrorCode_ConnectionTerminated:         "connection-terminated",
	http.ErrorCode_ConnectionTimeout:            "connection-timeout",
	http.ErrorCode_ConnectionReadTimeout:        "connection-read-timeout",
	http.ErrorCode_ConnectionWriteTimeout:       "connection-write-timeout",
	http.ErrorCode_ConnectionLimitReached:       "connection-limit-reached",
	http.ErrorCode_TlsProtocolError:             "tls-protocol-error",
	http.ErrorCode_TlsCertificateError:          "tls-certificate-error",
	http.ErrorCode_TlsAlertReceived:             "tls-alert-received",
	http.ErrorCode_HttpRequestDenied:            "http-request-denied",
	http.ErrorCode_HttpRequestBodySize:          "http-request-body-size",
	http.ErrorCode_HttpRequestUriInvalid:        "http-request-uri-invalid",
	http.ErrorCode_HttpRequestUriTooLong:        "http-request-uri-too-long",
	http.ErrorCode_HttpRequestHeaderSectionSize: "http-request-header-section-size",
	http.ErrorCode_HttpRequestHeaderSize:        "http-request-header-size",
	http.ErrorCode_HttpResponseIncomplete:       "http-response-incomplete",
	http.ErrorCode_HttpResponseTimeout:          "timeout",
	http.ErrorCode_HttpProtocolError:            "http-protocol-error",
	http.ErrorCode_ConfigurationError:           "configuration-error",
}
