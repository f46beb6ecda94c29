package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// maxTranscript bounds what is read of an answer to a transcription, in bytes.
const maxTranscript = 4 << 20

// Transcribe implements llm.Transcriber by the client's model, which must be one for that. It asks
// once. The errors are those of [Client.Generate].
func (c *Client) Transcribe(ctx context.Context, a llm.Audio) (llm.Transcript, error) {
	timed, cancel := context.WithTimeoutCause(ctx, c.config.Timeout, errSlow)
	defer cancel()
	kept := &keeper{http: c.http, most: maxTranscript}
	resp, err := c.library(kept).CreateTranscription(timed, openai.AudioRequest{
		Model: c.config.Model, FilePath: fileName(a.MediaType), Reader: bytes.NewReader(a.Data), Language: c.config.Language, Format: openai.AudioResponseFormatJSON,
	})
	if err == nil {
		return kept.transcript(resp.Text), nil
	}
	g := &generation{client: c, model: c.config.Model}
	return llm.Transcript{}, g.classify(ctx, ofLibrary(err, ending(timed)))
}

// formats are the endings of names by which endpoints know the format of audio, where they are not
// what comes after "audio/".
var formats = map[string]string{
	"x-wav": "wav", "wave": "wav", "vnd.wave": "wav", "mpeg": "mp3", "mp4": "m4a", "x-m4a": "m4a", "x-flac": "flac", "opus": "ogg", "vorbis": "ogg",
}

// fileName is a name for audio of the media type that tells its format.
func fileName(mediaType string) string { return "audio." + format(mediaType) }

// format is what endpoints call the format of the media type.
func format(mediaType string) string {
	bare, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	_, kind, _ := strings.Cut(strings.TrimSpace(bare), "/")
	return cmp.Or(formats[kind], kind)
}

// library is the library's client for requests that are answered at once, over http.
func (c *Client) library(over openai.HTTPDoer) *openai.Client {
	config := openai.DefaultConfig(c.config.Key)
	config.BaseURL, config.HTTPClient = c.config.BaseURL, over
	return openai.NewClientWithConfig(config)
}

// A keeper keeps the body of an answer, which has more than the library reads of it, within a bound
// in bytes.
type keeper struct {
	http *http.Client
	most int64
	body []byte
}

// Do implements openai.HTTPDoer.
func (k *keeper) Do(r *http.Request) (*http.Response, error) {
	resp, err := k.http.Do(r) //nolint:gosec // to the endpoint that the operator configured
	if err != nil {
		return nil, err
	}
	k.body, err = io.ReadAll(io.LimitReader(resp.Body, k.most+1))
	_ = resp.Body.Close() // it is only read
	switch {
	case err != nil:
		return nil, &lostError{err}
	case int64(len(k.body)) > k.most:
		return nil, &protocolError{errors.New("the answer is too long")}
	case resp.StatusCode < http.StatusBadRequest && !json.Valid(k.body):
		return nil, &protocolError{errors.New("the answer is no JSON")}
	}
	resp.Body = io.NopCloser(bytes.NewReader(k.body))
	return resp, nil
}

// transcript is the answer, with what the endpoint says that it charges for: tokens, or seconds.
func (k *keeper) transcript(text string) llm.Transcript {
	var told struct {
		Usage struct {
			Seconds float64 `json:"seconds"`
			Input   int64   `json:"input_tokens"`
			Output  int64   `json:"output_tokens"`
		} `json:"usage"`
		Duration float64 `json:"duration"`
	}
	_ = json.Unmarshal(k.body, &told) // who says it otherwise says nothing
	return llm.Transcript{Text: strings.TrimSpace(text), Seconds: max(told.Usage.Seconds, told.Duration, 0),
		Usage: mesh.Usage{Prompt: max(told.Usage.Input, 0), Completion: max(told.Usage.Output, 0)}}
}

// typeAudio is the type of a part that is audio.
const typeAudio = openai.ChatMessagePartType("input_audio")

// hasAudio reports whether a part of the messages is audio.
func hasAudio(messages []openai.ChatCompletionMessage) bool {
	return slices.ContainsFunc(messages, func(m openai.ChatCompletionMessage) bool {
		return slices.ContainsFunc(m.MultiContent, func(p openai.ChatMessagePart) bool { return p.Type == typeAudio })
	})
}

// hearable returns the messages, which are JSON, with audio as the protocol has it. The library has no
// field for it, so that it comes as the address of a picture and its detail.
func hearable(messages json.RawMessage) (json.RawMessage, error) {
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(messages, &all); err != nil {
		return nil, err
	}
	for _, m := range all {
		var parts []map[string]any
		if json.Unmarshal(m["content"], &parts) != nil {
			continue // text alone
		}
		for _, p := range parts {
			if at, ok := p["image_url"].(map[string]any); ok && p["type"] == string(typeAudio) {
				delete(p, "image_url")
				p["input_audio"] = map[string]any{"data": at["url"], "format": at["detail"]}
			}
		}
		raw, err := json.Marshal(parts)
		if err != nil {
			return nil, err
		}
		m["content"] = raw
	}
	return json.Marshal(all)
}

// maxSpeech bounds the audio of one answer, in bytes.
const maxSpeech = 16 << 20

// Synthesize implements llm.Synthesizer by the client's model, which must be one for speech, in its
// voice and format. It asks once. The errors are those of [Client.Generate].
func (c *Client) Synthesize(ctx context.Context, text string) (llm.Audio, error) {
	timed, cancel := context.WithTimeoutCause(ctx, c.config.Timeout, errSlow)
	defer cancel()
	resp, err := c.library(c.http).CreateSpeech(timed, openai.CreateSpeechRequest{
		Model: openai.SpeechModel(c.config.Model), Input: text, Voice: openai.SpeechVoice(c.config.Voice), ResponseFormat: openai.SpeechResponseFormat(c.config.Format),
	})
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(resp, maxSpeech+1))
		_ = resp.Close() // it is only read
		if err == nil && (len(data) == 0 || len(data) > maxSpeech) {
			err = &protocolError{errors.New("the speech has no bytes, or too many")}
		}
	}
	if err == nil {
		return llm.Audio{MediaType: speechTypes[c.config.Format], Data: data}, nil
	}
	g := &generation{client: c, model: c.config.Model}
	return llm.Audio{}, g.classify(ctx, ofLibrary(err, ending(timed)))
}

// speechTypes are the media types of the formats in which endpoints speak.
var speechTypes = map[string]string{"mp3": "audio/mpeg", "wav": "audio/wav", "opus": "audio/ogg", "flac": "audio/flac", "aac": "audio/aac"}
