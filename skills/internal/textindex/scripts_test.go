package textindex_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"agentmesh/skills/internal/textindex"
)

// Words are found in all scripts, however they are written, and what is shown
// is what was given.
func TestIndex_findsWordsOfAllScripts(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"zh": "Ann喜欢咖啡，不喝茶。", "zh2": "Bob 住在上海，二〇二六年3月搬家", "ja": "朝はコーヒーを飲みます。がんばれ", "ja2": "\uff7a\uff70\uff8b\uff70\u3068\uff76\uff9e\uff97\uff7d", // half width
		"th": "ฉันชอบดื่มกาแฟ", "ko": "나는 커피를 좋아해요", "km": "ខ្ញុំចូលចិត្តកាហ្វេ", "emoji": "Trip 👍🏽 to 🇩🇪 with ❤️ and 👩‍💻 ☕",
		"fr": "Cafe\u0301 cre\u0300me", "vi": "cà phê sữa đá", "el": "Ο ΚΑΦΕΣ της Άννας", "ru": "Ещё кофе", "hi": "मुझे हिन्दी पसंद है", "ar": "قَهْوَة", "he": "שָׁלוֹם",
		"wide": "Ｇｏ １２３ ﬁne", "ext": "\U00030000\U00030001 rare", "sign": "Mesh™ x² word¹ ├──┤",
	}
	ix := memory(t)
	var docs []textindex.Doc
	for id, text := range texts {
		docs = append(docs, doc(id, "", text))
	}
	apply(t, ix, textindex.Changes{Put: docs})
	for query, want := range map[string]string{
		"咖啡": "zh", "喜欢": "zh", "喜欢咖啡": "zh", "茶": "zh", "喝": "zh", "啡": "zh", "Ann 喜": "zh", "ann": "zh", "她喜欢什么？": "zh", "欢啡": "", "红茶": "",
		"上海": "zh2", "二〇二六": "zh2", "〇": "zh2", "3": "zh2", "月": "zh2",
		"コーヒー": "ja ja2", "ｺｰﾋｰ": "ja ja2", "飲み": "ja", "か\u3099ん": "ja", "か": "", "が": "ja", "ガラス": "ja2", "カラス": "ja2" /* ラス */, "カ": "",
		"กาแฟ": "th", "ดื่ม": "th", "ม": "th", "커피": "ko", "커피가": "ko", "피": "ko", "\u110f\u1165\u1111\u1175": "ko" /* the letters apart */, "나": "ko", "는커": "", "កាហ្វេ": "km",
		"👍": "emoji", "👍🏿": "emoji", "🇩🇪": "emoji", "🇩🇰": "", "🇩": "", "❤": "emoji", "💻": "emoji", "☕": "emoji", "🥐": "", "\ufe0f": "",
		"café": "fr", "CAFE": "fr", "crème": "fr", "ca": "vi", "sua": "vi", "καφες": "el", "άννας": "el", "ΑΝΝΑΣ": "el", "еще": "ru", "ЕЩЁ": "ru",
		"हिन्दी": "hi", "ह": "", "न द": "", "قهوة": "ar", "שלום": "he", "go": "wide", "１２３": "wide", "123": "wide", "fine": "wide",
		"\U00030001": "ext", "mesh": "sign", "x": "sign", "word": "sign", "├": "",
		`茶" OR "咖啡`: "zh", "咖*": "zh", "NEAR(咖 啡)": "zh", "title:茶": "zh", "茶\x00": "zh", "\xff茶": "zh",
	} {
		got := []string{}
		if words := textindex.Words(query); len(words) > 0 {
			got = ids(t, ix, textindex.Query{Words: words})
		}
		slices.Sort(got)
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("%q, as %q: %s", query, textindex.Words(query), diff)
		}
	}
	hits, err := ix.Search(t.Context(), textindex.Query{Words: textindex.Words("喝咖啡"), Limit: 1})
	if err != nil || len(hits) != 1 || hits[0].Texts[1] != texts["zh"] {
		t.Errorf("%+v, %v", hits, err)
	}
	apply(t, ix, textindex.Changes{Put: []textindex.Doc{doc("zh", "", "喝水")}, Delete: []string{"th"}})
	for query, want := range map[string][]string{"咖啡": {}, "กาแฟ": {}, "水": {"zh"}} {
		if diff := cmp.Diff(want, ids(t, ix, textindex.Query{Words: textindex.Words(query)})); diff != "" {
			t.Errorf("after the change, %q: %s", query, diff)
		}
	}
}

// More of the words, the weight of the column and the factor count in every
// script.
func TestIndex_ranksAllScripts(t *testing.T) {
	t.Parallel()
	ix := memory(t)
	low := doc("low", "", "安喜欢咖啡")
	low.Factor = 0.01
	apply(t, ix, textindex.Changes{Put: []textindex.Doc{
		doc("title", "安喜欢咖啡", "别的"), doc("body", "", "安喜欢咖啡"), doc("part", "", "安喜欢红茶"), low,
		doc("x", "", "今天下雨了"), doc("y", "", "明天去上海"), doc("z", "", "后天回北京"), doc("w", "", "一月很冷"), doc("v", "", "五月很热"),
	}})
	if diff := cmp.Diff([]string{"title", "body", "part", "low"}, ids(t, ix, textindex.Query{Words: textindex.Words("喜欢咖啡")})); diff != "" {
		t.Error(diff)
	}
	if got := ids(t, ix, textindex.Query{Words: textindex.Words("咖啡"), MinFactor: 0.5, Limit: 1}); !slices.Equal(got, []string{"title"}) {
		t.Errorf("found %v", got)
	}
}

// A file that an earlier version of the index made is made anew, empty and
// without its mark, so that its owner fills it.
func TestOpen_replacesAnEarlierVersion(t *testing.T) {
	t.Parallel()
	pool := textindex.NewPool(t.TempDir(), columns...)
	with := func(do func(*textindex.Index) error) {
		t.Helper()
		if err := pool.With(t.Context(), "ann", do); err != nil {
			t.Fatal(err)
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
	}
	with(func(ix *textindex.Index) error {
		return ix.Apply(t.Context(), textindex.Changes{Put: []textindex.Doc{doc("1", "walrus", "")}, Mark: "full"})
	})
	db, err := sql.Open("sqlite", pool.File("ann"))
	if err == nil {
		_, err = db.ExecContext(t.Context(), `PRAGMA user_version = 1`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	with(func(ix *textindex.Index) error {
		mark, err := ix.Mark(t.Context())
		n, err2 := ix.Size(t.Context())
		if mark != "" || n != 0 {
			t.Errorf("an index of version 1 was kept: %q, %d documents", mark, n)
		}
		apply(t, ix, textindex.Changes{Put: []textindex.Doc{doc("1", "海象", "")}})
		if got := ids(t, ix, textindex.Query{Words: []string{"海象"}}); len(got) != 1 {
			t.Errorf("found %v", got)
		}
		return errors.Join(err, err2)
	})
}

// Indexing and excerpts take time in proportion to the text, whatever it is of: one that
// grew with its square would not end before the tests do.
func TestIndex_isLinearInAllScripts(t *testing.T) {
	t.Parallel()
	const size = 1 << 16
	ix := memory(t)
	words := textindex.Words("咖啡 กาแฟ ok")
	for i, unit := range []string{"喜", "ที่", "あが", "커피 ", "x\n", "喜\n", "👍", "e\u0301", "\u0e48", "a喜"} {
		text := strings.Repeat(unit, size/len(unit)) + "\n咖啡\n"
		apply(t, ix, textindex.Changes{Put: []textindex.Doc{doc(fmt.Sprint(i), "", text)}})
		if got := textindex.Excerpt(text, words); !strings.Contains(got, "咖啡") {
			t.Errorf("%q: the excerpt is %.30q", unit, got)
		}
	}
	if got := ids(t, ix, textindex.Query{Words: words, Limit: 20}); len(got) != 10 {
		t.Errorf("found %v", got)
	}
}

func TestExcerpt_isTheDensestPart(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("没有什么可看的。", 20) + "\n"
	body := strings.Repeat(filler, 20) + "安喜欢咖啡。\n" + filler + "咖啡很香。\n" + strings.Repeat(filler, 20)
	got := textindex.Excerpt(body, textindex.Words("咖啡"))
	if len(got) > 1200 || !strings.Contains(got, "喜欢咖啡") || !strings.Contains(got, "咖啡很香") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if got := textindex.Excerpt(body, []string{"nowhere"}); !strings.HasPrefix(body, got) || got == "" {
		t.Errorf("without a match: %s", got)
	}
}

// Each text is found by each of its own words, and no text is query syntax.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"Ann 喜欢咖啡", "コーヒー", "ที่", "👍🏽🇩🇪🇩", "e\u0301\u0301", `"*' OR NEAR(`, "\x00\xff", "ﷺ ﾞ", "커피a茶\u0301"} {
		f.Add(s)
	}
	ix, err := textindex.New(context.Background(), columns...)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := ix.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, text string) {
		words := textindex.Words(text)
		apply(t, ix, textindex.Changes{Put: []textindex.Doc{doc("1", "", text)}})
		for _, w := range words {
			if !utf8.ValidString(w) && utf8.ValidString(text) {
				t.Errorf("%q has the word %q, which is not UTF-8", text, w)
			}
			if len(w) > 1000 { // the index cuts it
				continue
			}
			if got := ids(t, ix, textindex.Query{Words: []string{w}}); len(got) != 1 {
				t.Errorf("%q is not found by %q", text, w)
			}
		}
	})
}
