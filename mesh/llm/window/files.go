package window

import (
	"cmp"
	"slices"
	"strings"

	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
)

func hasFiles(m llm.Message) bool { return len(m.Files) > 0 }

// leastText is how much of a text is shown that is cut, at least, in bytes; of one that has less
// room nothing is.
const leastText = 512

// lighten takes over tokens out of the request's files, as far as these have so many, the largest
// first: of texts the end, and pictures. It changes none of the messages that it was given.
func lighten(count Counter, req *llm.Request, over int) {
	type place struct{ message, file, tokens int }
	var places []place
	for i, m := range req.Messages {
		for k, f := range m.Files {
			if len(f.Data) > 0 || f.Text != "" {
				places = append(places, place{i, k, tokensOf(count, f)})
			}
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.tokens, a.tokens) })
	messages := slices.Clone(req.Messages)
	for _, p := range places {
		if over <= 0 {
			break
		}
		m := &messages[p.message]
		m.Files = slices.Clone(m.Files)
		f := shortened(m.Files[p.file], float64(p.tokens-over)/float64(p.tokens))
		if p.tokens-tokensOf(count, f) < over { // the beginning is denser than the rest
			f = shortened(m.Files[p.file], 0)
		}
		over -= p.tokens - tokensOf(count, f)
		m.Files[p.file] = f
	}
	req.Messages = messages
}

// tokensOf is what the file has in a message.
func tokensOf(count Counter, f llm.File) int {
	return count.Message(llm.Message{Files: []llm.File{f}})
}

// shortened is the file with about that part of its text, in whole lines, and no picture.
func shortened(f llm.File, part float64) llm.File {
	const margin = 0.9 // the words around it stay as long
	end := max(0, strings.LastIndexByte(f.Text[:max(0, int(part*margin*float64(len(f.Text))))], '\n'))
	f.Data = nil
	if f.Text, f.Note = f.Text[:end], text.FileBegins(); end < leastText {
		f.Text, f.Note = "", text.FileNoRoom()
	}
	return f
}
