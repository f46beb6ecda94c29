package agent

import (
	"fmt"
	"strings"
)

// maxAsk bounds what the user is asked at a time, in bytes; one question alone
// may have maxPiece.
const maxAsk = maxPiece / 2

// forAll says what an answer to several questions means.
const forAll = "\n\nYour answer counts for all of these."

// Questions returns the questions as one text for the user: several are numbered
// and answered together. What would make it too long is left out, to be asked
// when the others have been answered.
func Questions(list []string) string {
	if len(list) == 0 {
		return ""
	}
	var items []string
	for size := 0; len(items) < len(list); {
		q := strings.TrimSpace(strings.TrimSuffix(list[len(items)], forAll))
		q = strings.ReplaceAll(strings.ReplaceAll(q, "\n", "\n   "), "\n   \n", "\n\n")
		item := fmt.Sprintf("%d. %s", len(items)+1, q)
		if size += len(item); size > maxAsk {
			break
		}
		items = append(items, item)
	}
	if len(items) < 2 {
		return list[0]
	}
	return strings.Join(items, "\n\n") + forAll
}
