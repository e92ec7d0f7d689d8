package plugin

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Settings are the destination's: the table `settings` of the operator's config, checked.
// settings.schema.json says the same to people and tools; keep the two together.
type Settings struct {
	URL           *url.URL
	Timeout       time.Duration // 0: only the call's budget bounds a request
	SigningSecret string        // empty: requests are not signed
}

// A Problem is what is wrong with one setting.
type Problem struct {
	Pointer string // a JSON Pointer (RFC 6901), such as "/url"; empty for the settings as a whole
	Message string // what would be right
}

// Refused is what `configure` returns as its error where settings are wrong.
type Refused struct{ Problems []Problem }

func (refused *Refused) Error() string { return "the settings are refused" }

var names = []string{"url", "timeout_ms", "signing_secret"}

// parseSettings refuses all that is wrong at once, so that the operator sees it together.
func parseSettings(text string) (Settings, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return Settings{}, &Refused{[]Problem{{"", "must be a JSON object: " + err.Error()}}}
	}
	var settings Settings
	var problems []Problem
	wrong := func(name, message string) { problems = append(problems, Problem{pointer(name), message}) }

	var address string
	_ = json.Unmarshal(given["url"], &address) // What is no string stays empty, and is refused.
	var ok bool
	if settings.URL, ok = parseURL(address); !ok {
		wrong("url", "must be an address such as https://example.com/hooks")
	}
	if value, isSet := given["timeout_ms"]; isSet {
		var ms int64
		if err := json.Unmarshal(value, &ms); err != nil || ms < 1 || ms > 1<<40 {
			wrong("timeout_ms", "must be a whole number of milliseconds above 0")
		}
		settings.Timeout = time.Duration(ms) * time.Millisecond
	}
	if value, isSet := given["signing_secret"]; isSet {
		if err := json.Unmarshal(value, &settings.SigningSecret); err != nil || settings.SigningSecret == "" {
			wrong("signing_secret", "must be the name of one of the destination's secrets")
		}
	}
	for name := range given {
		if !slices.Contains(names, name) {
			wrong(name, "unknown; the settings are "+strings.Join(names, ", "))
		}
	}
	if len(problems) > 0 {
		return Settings{}, &Refused{problems}
	}
	return settings, nil
}

func parseURL(text string) (*url.URL, bool) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.User != nil || parsed.Fragment != "" {
		return nil, false
	}
	return parsed, parsed.Scheme == "http" || parsed.Scheme == "https"
}

func pointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
