package llm

import (
	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// A File is a picture or another file that came with a message. Whatever a model is shown of
// it, it reads that the file is there, how it is called, and why it is shown no more.
type File struct {
	Name      string // for people, or ""
	MediaType string // or ""
	Size      int64  // in bytes; negative if it is not known
	URL       string // where it is, of one whose bytes did not come, or ""
	// Data is a picture in the media type, for models that see, or audio for those that hear; nil
	// for others.
	Data []byte
	// Text is what a model reads of what is in the file, marked as data; or "".
	Text string
	// Note says why there is neither Data nor Text, or not all of it; or "".
	Note string
}

// PictureTokens is about how many tokens a picture is counted as, at the most: providers scale
// large ones down. Audio is counted as one: some minutes of it.
const PictureTokens = 2_500

// Audio reports whether the file is audio.
func (f File) Audio() bool { return mesh.AudioType(f.MediaType) }

// Words are what a model reads of the file. With seen it is shown the picture, or audio, as well.
func (f File) Words(seen bool) string {
	note := f.Note
	switch {
	case len(f.Data) > 0 && !seen && f.Audio():
		note = text.HearsNothing()
	case len(f.Data) > 0 && !seen:
		note = text.SeesNoPictures()
	case note == "" && f.Text == "" && !seen:
		note = text.FileNotShown()
	}
	head := text.File(f.Name, f.MediaType, f.Size, f.URL, note)
	if f.Text == "" {
		return head
	}
	return head + "\n" + f.Text
}

// Sees reports whether the model takes pictures. Models that do not are told that there are some.
func Sees(m Model) bool {
	s, ok := m.(interface{ Sees() bool })
	return ok && s.Sees()
}

// Hears reports whether the model takes audio. Models that do not are told that there is some.
func Hears(m Model) bool {
	h, ok := m.(interface{ Hears() bool })
	return ok && h.Hears()
}
