package llm

import (
	"context"

	"agentmesh/mesh"
)

// An Audio is sound in a media type, as "audio/wav".
type Audio struct {
	MediaType string
	Data      []byte
}

// A Transcript is what was heard in an Audio; Text is "" where nobody speaks.
type Transcript struct {
	Text string
	// Seconds of audio, and tokens, are what the provider says that it charges for, or 0.
	Seconds float64
	Usage   mesh.Usage
}

// A Synthesizer speaks text. It may be called concurrently.
type Synthesizer interface {
	Synthesize(ctx context.Context, text string) (Audio, error)
}

// A Transcriber writes down what is said in audio. It may be called concurrently and keeps no audio.
// The error is Invalid for audio that it does not take; every other one is none of the audio's fault.
type Transcriber interface {
	Transcribe(ctx context.Context, a Audio) (Transcript, error)
}
