package mesh_test

import (
	"strings"
	"testing"

	"agentmesh/mesh"
)

// S4-036: what is the word to leave by, and what is a message that has it in it. Words of a
// card are compared alike, in any script.
func TestAMessageIsAWordOrHasItInIt(t *testing.T) {
	const nfd = "Zuru\u0308ck" // as some keyboards and file names have it
	for said, tt := range map[string]struct {
		word string
		want bool
	}{
		"exit": {"exit", true}, "EXIT": {"exit", true}, " Exit\t\r\n": {"exit", true},
		"Exit.": {"exit", true}, "exit!": {"exit", true}, "exit…": {"exit", true}, "“exit”": {"exit", true}, "'exit'.": {"exit", true},
		"\u00a0exit\u3000":                  {"exit", true},
		strings.Repeat(" ", 1<<16) + "exit": {"exit", true},
		"exit?":                             {"exit", false}, "exit the exit": {"exit", false}, "exit, please": {"exit", false}, "please exit": {"exit", false},
		"exits": {"exit", false}, "e x i t": {"exit", false}, "/exit": {"exit", false}, "exit:": {"exit", false}, "exit(1)": {"exit", false},
		"how do I exit": {"exit", false}, "Exit\nthe loop": {"exit", false}, "exi": {"exit", false}, "": {"exit", false}, "...": {"exit", false},
		"never  MIND": {"never mind", true}, "Never mind.": {"never mind", true}, "nevermind": {"never mind", false},
		"ZURÜCK": {"zurück", true}, nfd: {"ZURÜCK", true}, "zuruck": {"zurück", false},
		"ВЫХОД!": {"выход", true}, "ΈΞΟΔΟΣ": {"έξοδος", true}, "终了。": {"终了", true}, "stop": {"Stop!", true},
		"!": {"!", false}, strings.Repeat("a", 129): {strings.Repeat("a", 129), false},
	} {
		if got := mesh.Says(mesh.Say(said), tt.word); got != tt.want {
			t.Errorf("%.40q is %.40q: %v, want %v", said, tt.word, got, tt.want)
		}
	}
	two := mesh.Say("exit")
	two.Parts = append(two.Parts, mesh.Say("exit").Parts...)
	if mesh.Says(two, "exit") || mesh.Says(nil, "exit") || mesh.Says(mesh.Say("exit")) {
		t.Error("two parts, no message and no word are no word")
	}
	if !mesh.Says(mesh.Say("cancel"), "stop", "Cancel") {
		t.Error("the second word is not found")
	}
}
