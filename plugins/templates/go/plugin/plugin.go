// Package plugin is my-plugin: it posts each event to one URL.
//
// Outhaul calls `configure` once for each instance, and then `deliver` for one event after another. The
// error that `deliver` returns decides what becomes of the event; failures.go has every choice.
package plugin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"my-plugin/bindings/imports/outhaul_delivery_describe"
	types "my-plugin/bindings/imports/outhaul_delivery_types"
	"my-plugin/bindings/imports/outhaul_secrets_secrets"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

const (
	name    = "my-plugin"
	version = "0.1.0"
)

// Schema is settings.schema.json, from the project's folder.
var Schema string

// What `configure` read. Nothing else is kept from one event to the next.
var settings Settings

func configure(settingsJSON string) error {
	var err error
	if settings, err = parseSettings(settingsJSON); err != nil {
		return err
	}
	if settings.SigningSecret != "" {
		// A missing grant shows when the plugin is loaded, not when the first event comes.
		if signed := sign(nil); signed.IsErr() {
			return refusal(signed.Err())
		}
	}
	log(Info, "posting to "+settings.URL.String())
	return nil
}

func deliver(event *types.Event) (types.Receipt, error) {
	request, err := begin(event, within(event.BudgetMs))
	if err != nil {
		return types.Receipt{}, err
	}
	return receipt(request)
}

// begin sends the event. A batch begins several of its events before it waits for the first answer.
func begin(event *types.Event, by deadline) (*Request, error) {
	now := fmt.Sprint(time.Now().Unix())
	headers := []Header{
		{"content-type", event.ContentType},
		{"user-agent", name + "/" + version},
		// The same on every attempt: a receiver that remembers it can tell a repeated delivery.
		{"webhook-id", event.DedupId},
		{"webhook-timestamp", now},
	}
	if settings.SigningSecret != "" {
		signature, err := signature(event.DedupId+"."+now+".", event.Payload)
		if err != nil {
			return nil, err
		}
		headers = append(headers, Header{"webhook-signature", signature})
	}
	return Post(settings.URL, headers, event.Payload, by)
}

// receipt waits for the answer.
func receipt(request *Request) (types.Receipt, error) {
	answer, err := request.Answer()
	if err != nil {
		return types.Receipt{}, err
	}
	if failure := failureOf(answer, time.Now()); failure != nil {
		return types.Receipt{}, failure
	}
	receipt := types.Receipt{Disposition: types.Disposition_Delivered, Reference: wit.None[string]()}
	if answer.Location != "" {
		receipt.Reference = wit.Some(text(answer.Location))
	}
	return receipt, nil
}

// signature is as standardwebhooks.com has it: one for each of the secret's keys, so that receivers can rotate.
func signature(head string, payload []byte) (string, error) {
	signed := sign(append([]byte(head), payload...))
	if signed.IsErr() {
		message := fmt.Sprintf("signing with %q: %s", settings.SigningSecret, message(signed.Err()))
		return "", &Failure{Kind: Misconfigured, Code: "signing", Message: message}
	}
	var all []string
	for _, signature := range signed.Ok() {
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(signature.Bytes))
	}
	return strings.Join(all, " "), nil
}

// sign asks the host: the key itself never enters the plugin.
func sign(data []byte) wit.Result[[]outhaul_secrets_secrets.Signature, outhaul_secrets_secrets.SecretError] {
	return outhaul_secrets_secrets.Sign(settings.SigningSecret, "hmac-sha256", data)
}

func refusal(err outhaul_secrets_secrets.SecretError) error {
	if err.Tag() == outhaul_secrets_secrets.SecretError_Unusable {
		// A key that can't be read now may be there in a moment.
		return errors.New(message(err))
	}
	return &Refused{[]Problem{{"/signing_secret", message(err)}}}
}

func message(err outhaul_secrets_secrets.SecretError) string {
	switch err.Tag() {
	case outhaul_secrets_secrets.SecretError_Denied:
		return err.Denied()
	case outhaul_secrets_secrets.SecretError_UnknownAlgorithm:
		return err.UnknownAlgorithm()
	default:
		return err.Unusable()
	}
}

// describe is optional: what the plugin says of itself. Called without `configure`.
func describe() outhaul_delivery_describe.Description {
	return outhaul_delivery_describe.Description{
		Name:           name,
		Version:        version,
		SettingsSchema: Schema,
		Needs: []outhaul_delivery_describe.Need{
			{Capability: "http", Purpose: "the origin of the setting url"},
			{
				Capability: "secret", Uses: []string{"hmac-sha256"}, Optional: true,
				Purpose: "the key named by the setting signing_secret",
			},
		},
	}
}
