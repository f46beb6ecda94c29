package node

import (
	"cmp"
	"context"
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
func (c *Config) fillVoice() error {
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

// voiceTime is how long an endpoint may take for one piece of speech.
const voiceTime = 2 * time.Minute

// hearing is what makes text of audio, or nil.
func (n *node) hearing() (func(context.Context, mesh.ThreadKey, []*a2apb.Part, func(*a2apb.Part) bool) ([]*a2apb.Part, error), error) {
	t := n.cfg.Voice.Transcription
	if t.Name == "" {
		return nil, nil
	}
	c, err := openai.New(openai.Config{BaseURL: t.URL, Key: t.Key, Model: t.Name, Language: t.Language, Timeout: voiceTime, Logger: n.logger,
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
