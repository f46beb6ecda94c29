package node

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/voice"
)

// Voice is how users speak with the mesh.
type Voice struct {
	// Transcription is by what audio in messages is made text; without a name it is not.
	Transcription Transcription `yaml:"transcription"`
	// Speech is by what answers are spoken to who wants that; without a name they are not.
	Speech Speech `yaml:"speech"`
}

// Speech names a model that speaks at an OpenAI-compatible endpoint.
type Speech struct {
	// URL and Key are those of Model where they are left out.
	URL  string `yaml:"url"`
	Key  string `yaml:"key"`
	Name string `yaml:"name"`
	// Voice is one that the endpoint knows; default alloy. Format is mp3 (default), wav, opus, flac
	// or aac.
	Voice  string `yaml:"voice"`
	Format string `yaml:"format"`
}

// Transcription names a model for speech at an OpenAI-compatible endpoint.
type Transcription struct {
	// URL and Key are those of Model where they are left out.
	URL  string `yaml:"url"`
	Key  string `yaml:"key"`
	Name string `yaml:"name"`
	// Language is that of who speaks, in ISO 639-1, as "de"; by default the model finds out.
	Language string `yaml:"language"`
}

// takes are the media types that the mesh makes text, for cards.
func (v Voice) takes() []string {
	if v.Transcription.Name == "" {
		return nil
	}
	return []string{"audio/*"}
}

// fillVoice checks what is spoken by, and gives it the endpoint of the model where it names none.
func (c *Config) fillVoice() error { return errors.Join(c.fillTranscription(), c.fillSpeech()) }

func (c *Config) fillSpeech() error {
	s := &c.Voice.Speech
	switch {
	case s.Name == "" && *s != Speech{}:
		return invalid("voice.speech.name", "is missing; name the model that speaks, as tts-1, or leave all of voice.speech out")
	case s.Name == "":
		return nil
	case !slices.Contains([]string{"", "mp3", "wav", "opus", "flac", "aac"}, s.Format):
		return invalid("voice.speech.format", "must be mp3, wav, opus, flac or aac, and is %q", s.Format)
	}
	s.Voice, s.Format = cmp.Or(s.Voice, "alloy"), cmp.Or(s.Format, "mp3")
	return c.fillEndpoint("voice.speech", &s.URL, &s.Key)
}

func (c *Config) fillTranscription() error {
	t := &c.Voice.Transcription
	switch {
	case t.Name == "" && *t != Transcription{}:
		return invalid("voice.transcription.name", "is missing; name the model for transcriptions, as whisper-1, or leave all of voice.transcription out")
	case t.Name == "":
		return nil
	case len(t.Language) != 0 && len(t.Language) != 2:
		return invalid("voice.transcription.language", "must be two letters such as de, and is %q; leave it out to have the model find out", t.Language)
	}
	return c.fillEndpoint("voice.transcription", &t.URL, &t.Key)
}

// fillEndpoint checks the URL at that path, and takes that of the model, with its key, where there is none.
func (c *Config) fillEndpoint(at string, url, key *string) error {
	switch {
	case *url != "" && !webURL(*url):
		return invalid(at+".url", "must be a URL such as https://api.openai.com/v1")
	case *url == "" && c.Model.URL == "":
		return invalid(at+".url", "is missing, and so is model.url; name the endpoint")
	case *url == "":
		*url, *key = c.Model.URL, cmp.Or(*key, c.Model.Key)
	}
	return nil
}

// How long an endpoint may take for one piece of audio, and for an answer, for which its turn waits.
const (
	hearTime  = 2 * time.Minute
	speakTime = 30 * time.Second
)

// hearing is what makes text of audio, or nil.
func (n *node) hearing() (func(context.Context, mesh.ThreadKey, []*a2apb.Part, func(*a2apb.Part) bool) ([]*a2apb.Part, error), error) {
	t := n.cfg.Voice.Transcription
	if t.Name == "" {
		return nil, nil
	}
	c, err := openai.New(openai.Config{BaseURL: t.URL, Key: t.Key, Model: t.Name, Language: t.Language, Timeout: hearTime, Logger: n.logger,
		Settings: openai.Settings{URL: "voice.transcription.url", Key: "voice.transcription.key", Model: "voice.transcription.name"}})
	if err != nil {
		return nil, mesh.Wrap("node.hearing", err)
	}
	n.voices = append(n.voices, c)
	ear, err := voice.New(c, n.backend.Blobs.Peek, n.logger)
	if err != nil {
		return nil, err
	}
	return ear.Hear, nil
}

// speaking is what speaks answers, or nil.
func (n *node) speaking() (func(context.Context, string) (*a2apb.Part, error), error) {
	s := n.cfg.Voice.Speech
	if s.Name == "" {
		return nil, nil
	}
	c, err := openai.New(openai.Config{BaseURL: s.URL, Key: s.Key, Model: s.Name, Voice: s.Voice, Format: s.Format, Timeout: speakTime, Logger: n.logger,
		Settings: openai.Settings{URL: "voice.speech.url", Key: "voice.speech.key", Model: "voice.speech.name"}})
	if err != nil {
		return nil, mesh.Wrap("node.speaking", err)
	}
	n.voices = append(n.voices, c)
	return func(ctx context.Context, words string) (*a2apb.Part, error) {
		a, err := c.Synthesize(ctx, words)
		return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: a.Data}, MediaType: a.MediaType, Filename: "answer." + s.Format}, err
	}, nil
}
