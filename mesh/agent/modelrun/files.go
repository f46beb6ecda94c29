package modelrun

import (
	"bytes"
	"cmp"
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// What a model is shown of the files of a conversation, the newest first: of a text its beginning,
// and pictures up to a size that has, in base64, as many bytes as the strictest provider takes.
const (
	maxFileText    = mesh.MaxResult
	maxTexts       = 16
	maxPicture     = 3 << 20
	maxAllPictures = 4 * maxPicture
)

// maxFileName bounds what a model reads of the name of a file and of where it is, in bytes.
const maxFileName = 200

// The media types that models see, that they hear, and those of texts that they read, beside text/*.
var (
	pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	audios   = []string{"audio/wav", "audio/mpeg"}
	texts    = []string{"application/json", "application/x-ndjson", "application/xml", "application/yaml", "application/toml", "application/javascript"}
)

// Takes are the media types of files that an agent of the model takes, for its card: those of which
// the model is shown what is in them.
func Takes(m llm.Model) []string {
	out := append([]string{"text/*"}, texts...)
	if llm.Sees(m) {
		out = append(out, pictures...)
	}
	if llm.Hears(m) {
		out = append(out, audios...)
	}
	return out
}

// filesOf are the pictures and files of the parts, of which nothing is shown yet: Data is what came
// with them. Audio whose words are in other parts is none.
func filesOf(parts []*a2apb.Part) []llm.File {
	var out []llm.File
	for _, p := range parts {
		f := llm.File{Name: plainName(p.GetFilename()), MediaType: mediaType(p.GetMediaType()), Size: -1}
		switch c := p.GetContent().(type) {
		case *a2apb.Part_Raw:
			f.Size, f.Data = int64(len(c.Raw)), c.Raw
		case *a2apb.Part_Url:
			f.URL = c.Url
			if b, ok := mesh.ParseBlob(c.Url); ok {
				f.Size = b.Size
			}
		default:
			continue
		}
		heard, why := mesh.Heard(p)
		if heard { // its words are in the message
			continue
		}
		if why != "" {
			f.Note = text.AudioNotHeard(why)
		}
		out = append(out, f)
	}
	return out
}

// plainName is a name with nothing in it that is more than a name: who sends a file chooses it.
func plainName(name string) string {
	return mesh.Clip(strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" ._-+()", r) {
			return r
		}
		return '_'
	}, name)), maxFileName)
}

// mediaType is a media type without parameters; "" for what is none, or says nothing.
func mediaType(s string) string {
	if t, _, err := mime.ParseMediaType(s); err == nil && len(t) <= maxFileName && strings.Contains(t, "/") && t != "application/octet-stream" {
		return t
	}
	return ""
}

// textual reports whether a model reads what is of the media type.
func textual(t string) bool {
	return strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml") ||
		slices.Contains(texts, t)
}

// show puts into the history what the model is shown of its files: pictures if it sees them, and
// texts, of users alone. Of all others it reads that they are there.
func (m *modelRun) show(ctx context.Context) error {
	s := showing{run: m, texts: maxTexts, looks: maxLooks}
	if llm.Sees(m.Model) || llm.Hears(m.Model) {
		s.pictures = maxAllPictures
	}
	for i, msg := range slices.Backward(m.history) {
		if len(msg.Files) == 0 {
			continue
		}
		files := slices.Clone(msg.Files)
		for k, f := range slices.Backward(files) {
			files[k] = s.shown(ctx, f, msg.Role)
		}
		m.history[i].Files = files
	}
	return ctx.Err()
}

// showing is what may still be shown, texts and bytes of pictures, and of how many files something may
// still be read that is not shown.
type showing struct {
	run      *modelRun
	texts    int
	pictures int64
	looks    int
}

// maxLooks is of how many files, the newest, something is read that is not shown: what they are, where
// they do not say it, and texts that are none.
const maxLooks = 64

// shown is the file as the model gets it.
func (s *showing) shown(ctx context.Context, f llm.File, from llm.Role) llm.File {
	raw, blob := f.Data, mesh.Blob{}
	f.Data = nil
	if raw == nil {
		var ours bool
		if blob, ours = mesh.ParseBlob(f.URL); !ours {
			f.URL = plainURL(f.URL)
			return f // nobody fetches what users name
		}
		f.URL = ""
	}
	if from != llm.RoleUser {
		return f
	}
	read := func(most int64) []byte {
		if raw != nil {
			return raw[:min(int64(len(raw)), most)]
		}
		data, err := s.run.inv.Mesh.ReadBlob(ctx, blob, most)
		if err != nil && ctx.Err() == nil {
			s.run.Logger.WarnContext(ctx, "a file cannot be read", "thread", s.run.inv.Thread, "file", blob.Hash, "err", err)
		}
		if err != nil {
			f.Note = text.FileNotRead()
		}
		return data
	}
	if f.MediaType == "" && f.Size > 0 && s.looks > 0 {
		s.looks--
		if begin := read(512); len(begin) > 0 {
			f.MediaType = mediaType(http.DetectContentType(begin))
		}
	}
	switch {
	case f.Note != "":
	case slices.Contains(pictures, f.MediaType):
		s.picture(&f, read, llm.Sees(s.run.Model), text.SeesNoPictures())
	case slices.Contains(audios, sound(f.MediaType)):
		s.picture(&f, read, llm.Hears(s.run.Model), text.HearsNothing())
	case textual(f.MediaType):
		s.text(&f, read)
	case f.Audio():
		f.Note = text.HearsNothing()
	}
	return f
}

// sound is a media type of audio under the name that is in audios.
func sound(t string) string {
	switch t {
	case "audio/wave", "audio/x-wav", "audio/vnd.wave":
		return "audio/wav"
	case "audio/mp3":
		return "audio/mpeg"
	}
	return t
}

// picture shows a picture, or audio, if the model takes it, and says else that it does not.
func (s *showing) picture(f *llm.File, read func(most int64) []byte, takes bool, not string) {
	switch {
	case !takes:
		f.Note = not
	case f.Size > maxPicture:
		f.Note = text.PictureTooLarge(maxPicture)
	case f.Size > s.pictures:
		f.Note = text.FileEarlier()
	default:
		s.pictures -= f.Size // also if it turns out to be none: it is read
		data := read(f.Size)
		if f.Note != "" {
			return
		}
		is := sound(mediaType(http.DetectContentType(data)))
		if !slices.Contains(pictures, is) && !slices.Contains(audios, is) || f.Audio() != mesh.AudioType(is) { // which providers refuse, with all that is asked
			f.Note = text.FileNotAs(f.MediaType)
			return
		}
		f.MediaType, f.Data = is, data
	}
}

// text shows a text, or its beginning.
func (s *showing) text(f *llm.File, read func(most int64) []byte) {
	if s.texts == 0 || s.looks == 0 {
		f.Note = text.FileEarlier()
		return
	}
	data := read(maxFileText)
	if f.Note != "" || len(data) == 0 {
		s.looks--
		return
	}
	if int64(len(data)) < f.Size {
		f.Note = text.FileBegins()
		for range utf8.UTFMax - 1 { // of a character that was cut
			if r, n := utf8.DecodeLastRune(data); r != utf8.RuneError || n != 1 {
				break
			}
			data = data[:len(data)-1]
		}
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		f.Note = text.FileNotAs(cmp.Or(f.MediaType, "text/plain"))
		s.looks--
		return
	}
	f.Text = command.Quote(string(data))
	s.texts--
}

// plainURL is an address with nothing in it that is more than one: no words, password or query.
func plainURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || strings.ContainsFunc(u.Host, func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_:", r)
	}) {
		return ""
	}
	return mesh.Clip(u.Scheme+"://"+u.Host+u.EscapedPath(), maxFileName)
}
