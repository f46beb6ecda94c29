package knowledge_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/skill"
	"agentmesh/skills/knowledge"
)

// reading opens an index of the files, which has PDF files read by this program.
func reading(t *testing.T, files map[string][]byte) *knowledge.Index {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	for name, data := range files {
		fsys[name] = &fstest.MapFile{Data: data}
	}
	ix, err := knowledge.Open(fsys, knowledge.Options{PDF: []string{self, "read-pdf"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ix.Close() })
	return ix
}

// docx is a document with these parts.
func docx(t *testing.T, parts map[string]io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, r := range parts {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.Copy(w, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sized is a document whose text is said to have that many bytes.
func sized(t *testing.T, size uint64, r io.Reader) []byte {
	t.Helper()
	var packed, b bytes.Buffer
	f, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = io.Copy(f, r)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "word/document.xml", Method: zip.Deflate, CompressedSize64: uint64(packed.Len()), UncompressedSize64: size})
	if err == nil {
		_, err = w.Write(packed.Bytes())
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pdfOf is a PDF file with a page for each content.
func pdfOf(contents ...string) []byte {
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", "<</Title(Hand\\(book\\))>>"}
	kids := ""
	for _, c := range contents {
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		_, _ = io.WriteString(z, c)
		_ = z.Close()
		n := len(objects) + 1
		kids += fmt.Sprintf("%d 0 R ", n)
		objects = append(objects, fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>", n+1),
			fmt.Sprintf("<</Length %d/Filter/FlateDecode>>\nstream\n%s\nendstream", packed.Len(), packed.String()))
	}
	objects[1] = fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", len(contents), kids)
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	var at []int
	for i, o := range objects {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R/Info 4 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, start)
	return b.Bytes()
}

const word = `<w:document xmlns:w="w"><w:body>
<w:p><w:pPr><w:pStyle w:val="Titel"/></w:pPr><w:r><w:t>Hand</w:t></w:r><w:r><w:t>book</w:t></w:r></w:p>
<w:p><w:pPr><w:pStyle w:val="berschrift2"/></w:pPr><w:r><w:t>Zebras</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">They eat </w:t></w:r><w:r><w:t>grass.</w:t><w:br/><w:t>Daily.</w:t></w:r><w:r><w:delText>meat</w:delText><w:instrText>PAGE</w:instrText></w:r></w:p>
<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>one</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
</w:body></w:document>`

const styles = `<w:styles xmlns:w="w"><w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style></w:styles>`

const webPage = `<!doctype html><html><head><meta charset="iso-8859-1"><title>Caf` + "\xe9" + ` handbook</title><style>zebra{}</style><script>zebra</script></head>
<body><nav>zebra home</nav><h1>Welcome</h1><p>Intro.
<h2>Zebras <em>here</em></h2>
<p>They eat
<b>gra</b>ss &amp; hay.<ul><li>one<li>two</ul>
<table><tr><th>a</th><th>b</th></tr></table><pre>x
  y</pre></body></html>`

// finding U2: documents of the formats that people have are read, with their headings, and with
// lines, paragraphs or pages as places.
func TestSearch_readsTheFormatsThatPeopleHave(t *testing.T) {
	ix := reading(t, map[string][]byte{
		"a.docx": docx(t, map[string]io.Reader{"word/document.xml": strings.NewReader(word), "word/styles.xml": strings.NewReader(styles)}),
		"b.html": []byte(webPage), "c.htm": []byte("<p>giraffes"),
		"d.pdf": pdfOf("BT /F1 12 Tf 50 700 Td (Nothing here.) Tj ET", "BT /F1 12 Tf 50 700 Td (A zebra eats) Tj 0 -14 Td (grass only.) Tj 0 -40 Td (Second paragraph) Tj ET"),
		"e.txt": []byte("# zebra eats grass\n"),
	})
	type place struct {
		Document, Section string
		Line, Page        int
		Text              string
	}
	got := map[string]place{}
	found, err := ix.Search(t.Context(), "zebra eats grass", 20)
	for _, p := range found {
		got[p.Path] = place{p.Document, p.Section, p.Line, p.Page, p.Text}
	}
	want := map[string]place{
		"a.docx": {"Handbook", "Zebras", 2, 0, "They eat grass. Daily.\n\n- one\n| a | b |"},
		"b.html": {"Café handbook", "Welcome > Zebras here", 3, 0, "They eat grass & hay.\n\n- one\n- two\n| a | b |\n```\nx\n  y\n```"},
		"d.pdf":  {"Hand(book)", "", 0, 2, "A zebra eats grass only.\n\nSecond paragraph"},
		"e.txt":  {"e", "", 1, 0, "# zebra eats grass"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if problems, err := ix.Problems(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("problems are %v, %v", problems, err)
	}
}

// zeros are so many spaces.
type zeros int64

func (z *zeros) Read(b []byte) (int, error) {
	n := min(len(b), int(*z))
	if n == 0 {
		return 0, io.EOF
	}
	for i := range n {
		b[i] = ' '
	}
	*z -= zeros(n)
	return n, nil
}

// A file that is made to harm is told by its name, and takes no more than it may: the other files
// are searched. None of these is read in whole.
func TestSearch_survivesFilesThatAreMadeToHarm(t *testing.T) {
	text, lied := zeros(8<<20+1), zeros(1<<20)
	deep := strings.Repeat("[", 300_000)
	files := map[string][]byte{
		"good.md":     []byte("zebra"),
		"bomb.docx":   sized(t, 1<<40, strings.NewReader("<d/>")),
		"lie.docx":    sized(t, 10, &lied),
		"long.docx":   docx(t, map[string]io.Reader{"word/document.xml": io.MultiReader(strings.NewReader("<d><p><t>"), &text, strings.NewReader("</t></p></d>"))}),
		"deep.docx":   docx(t, map[string]io.Reader{"word/document.xml": strings.NewReader(strings.Repeat("<p>", 100_000))}),
		"styles.docx": docx(t, map[string]io.Reader{"word/styles.xml": strings.NewReader("<a></b><"), "word/document.xml": strings.NewReader("<d/>")}),
		"none.docx":   []byte("PK zebra"), "part.docx": docx(t, map[string]io.Reader{"x": strings.NewReader("")}),
		"none.pdf": []byte("%PDF-1.4\nzebra"), "deep.pdf": pdfOf("BT /F1 12 Tf " + deep + deep + deep + " Tj ET"),
		"bomb.pdf": pdfOf("BT /F1 12 Tf (" + strings.Repeat(" ", 4<<20) + ") Tj ET"),
		"scan.pdf": pdfOf("q Q"), "old.doc": []byte("zebra"), "big.md": bytes.Repeat([]byte("zebra "), 400_000), "latin.md": []byte("caf\xe9"),
	}
	good := map[string]bool{"good.md": true, "titles.md": true, "titles.html": true, "quiet.html": true}
	files["titles.md"] = []byte("# t\n## " + strings.Repeat("a", 1<<20) + "\n" + strings.Repeat("### b\nc\n", 5_000))
	files["titles.html"] = []byte("<title>" + strings.Repeat("a", 1<<20) + "</title>" + strings.Repeat("<h2>b</h2>c", 5_000))
	files["quiet.html"] = []byte("<header><nav>menu</header><p>quagga</p>" + strings.Repeat("<nav>", 100_000) + strings.Repeat("</nav>", 100_000))
	files["menu.html"] = []byte("<nav>zebra")
	files["bad\xe9.doc"] = []byte("zebra")
	ix := reading(t, files)
	if got := search(t, ix, "zebra"); len(got) != 1 {
		t.Errorf("found %q", got)
	}
	if got := search(t, ix, "quagga"); len(got) != 1 {
		t.Errorf("of a page whose elements do not end in order is found %q", got)
	}
	problems, err := ix.Problems(t.Context())
	told := map[string]bool{}
	for _, p := range problems {
		if told[p.Path] = p.Detail != ""; len(p.Detail) > 300 || !utf8.ValidString(p.Path) {
			t.Errorf("%s %s", p.Path, p.Detail)
		}
	}
	for name := range files {
		if !good[name] && !told[skill.Visible(name)] {
			t.Errorf("%s is left out in silence: %v, %v", name, problems, err)
		}
	}
}
