package rest

import (
	"strconv"
	"testing"
	"time"
)

// A shelf that is full forgets the card that was asked for longest ago, and no other;
// one that has changed is new.
func TestAFullShelfForgetsTheOldestCardAlone(t *testing.T) {
	shelf := newCardShelf()
	key := func(i int) shelfKey { return shelfKey{agent: strconv.Itoa(i)} }
	put := func(i int, body string) time.Time { return shelf.put(key(i), newDocument([]byte(body))).modified }
	var since []time.Time
	for i := range shelfSize {
		since = append(since, put(i, "card"))
	}
	if put(0, "card") != since[0] {
		t.Error("a card that is as it was is new")
	}
	put(shelfSize, "one more")
	for i, at := range since {
		if i != 1 && !put(i, "card").Equal(at) {
			t.Errorf("card %d is forgotten", i)
		}
	}
	if put(1, "card").Equal(since[1]) {
		t.Error("there is more on the shelf than fits")
	}
	if put(0, "changed").Equal(since[0]) {
		t.Error("a card that changed is as old as before")
	}
}
