package openai

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	openai "github.com/sashabaranov/go-openai"
)

// Space names what makes the vectors of Embed: the model, where it is.
func (c *Client) Space() string { return c.thinker(c.config.Model) }

// Embed returns a vector for each of the texts by the client's model, which must be one
// for embeddings. It asks once. The errors are those of [Client.Generate].
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	timed, cancel := context.WithTimeoutCause(ctx, c.config.Timeout, errSlow)
	defer cancel()
	resp, err := c.library(c.http).CreateEmbeddings(timed, openai.EmbeddingRequest{
		Input: texts, Model: openai.EmbeddingModel(c.config.Model), EncodingFormat: openai.EmbeddingEncodingFormatFloat,
	})
	if err == nil {
		vectors, wrong := vectorsOf(resp.Data, len(texts))
		if wrong == nil {
			return vectors, nil
		}
		err = &protocolError{wrong}
	}
	g := &generation{client: c, model: c.config.Model}
	return nil, g.classify(ctx, ofLibrary(err, ending(timed)))
}

// ofLibrary is the error of a request that the library makes itself.
func ofLibrary(err, ended error) error {
	var said *openai.APIError
	var refused *openai.RequestError
	var at *url.Error
	switch {
	case ended != nil:
		return ended
	case errors.As(err, &refused):
		return ofResponse(refused.HTTPStatusCode, refused.Body, 0)
	case errors.As(err, &said):
		return &apiError{status: said.HTTPStatusCode, text: said.Message}
	case errors.As(err, &at): // the URL may have secrets in it
		return &lostError{at.Err}
	}
	return err
}

// vectorsOf are the vectors in the order of the texts, one for each.
func vectorsOf(data []openai.Embedding, n int) ([][]float32, error) {
	out := make([][]float32, n)
	for _, e := range data {
		if e.Index < 0 || e.Index >= n || out[e.Index] != nil || len(e.Embedding) == 0 || len(e.Embedding) != len(data[0].Embedding) {
			return nil, errors.New("the embeddings do not belong to the texts")
		}
		out[e.Index] = e.Embedding
	}
	if len(data) != n {
		return nil, fmt.Errorf("%d embeddings came for %d texts", len(data), n)
	}
	return out, nil
}
