package llm

import "slices"

// A NativeUse is one use of a tool that the provider itself has and runs, as a search of the
// web: it has happened when it is told, and nothing answers it.
type NativeUse struct {
	// ID is the provider's, or "".
	ID string
	// Tool is the provider's name of the tool, as "web_search".
	Tool string
	// Detail is what it was used for, as far as the provider tells: a query, a URL, the
	// code that ran. It has at most MaxNativeDetail bytes.
	Detail string
	Failed bool
}

// MaxNativeDetail bounds the Detail of a NativeUse, in bytes.
const MaxNativeDetail = 4 << 10

// A Source is a page that a reply is based on.
type Source struct {
	URL   string
	Title string // may be ""
}

// Offers reports whether the model's provider has the native tool, by any of the names
// that it knows for it. Models that run no tools of their own, as those without a network,
// have none.
func Offers(m Model, tool string) bool {
	o, ok := m.(interface{ Offers(tool string) bool })
	return ok && o.Offers(tool)
}

// Lacking returns those of the native tools that the model's provider does not have.
func Lacking(m Model, tools []string) []string {
	return slices.DeleteFunc(slices.Clone(tools), func(tool string) bool { return Offers(m, tool) })
}
