package text

import (
	"fmt"
	"strings"
)

// File tells a model of a file that came with a message: its name, media type and size, as far
// as they are known (a negative size is not), where it is, and why it is not shown, or "".
func File(name, mediaType string, size int64, url, note string) string {
	about := []string{Sprintf("File")}
	if name != "" {
		about[0] = Sprintf("File %s", name)
	}
	if mediaType != "" {
		about = append(about, mediaType)
	}
	if size >= 0 {
		about = append(about, Size(size))
	}
	if url != "" {
		about = append(about, Sprintf("at %s", url))
	}
	head := strings.Join(about, ", ")
	if note != "" {
		head += ": " + note
	}
	return "[" + head + "]"
}

// Size is a number of bytes for people.
func Size(n int64) string {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	switch {
	case n >= gib:
		return fmt.Sprintf("%.1f GiB", float64(n)/gib)
	case n >= mib:
		return fmt.Sprintf("%.1f MiB", float64(n)/mib)
	case n >= kib:
		return fmt.Sprintf("%.1f KiB", float64(n)/kib)
	}
	return Sprintf("%d bytes", n)
}

// FileNotShown says that a model is not shown what is in a file.
func FileNotShown() string { return Sprintf("you are not shown what is in it") }

// SeesNoPictures says that a model is not shown a picture because it takes none.
func SeesNoPictures() string { return Sprintf("a picture, which you cannot see") }

// PictureTooLarge says that a picture is larger than models are shown.
func PictureTooLarge(most int64) string {
	return Sprintf("you are not shown pictures above %s", Size(most))
}

// FileEarlier says that newer files are shown in place of one.
func FileEarlier() string { return Sprintf("only newer files are shown to you") }

// FileNotRead says that the bytes of a file could not be read.
func FileNotRead() string { return Sprintf("it could not be read") }

// FileNotAs says that a file is not what its media type says.
func FileNotAs(mediaType string) string { return Sprintf("what is in it is not %s", mediaType) }

// FileBegins says that a model is shown the beginning of a file.
func FileBegins() string { return Sprintf("only its beginning is shown") }

// FileNoRoom says that what is in a file has no room in the model's window.
func FileNoRoom() string { return Sprintf("what is in it has no room here") }
