package dispatch

import "agentmesh/mesh"

// A Profile is how a model has agents work: which tools it gets, and when it is told of
// results. Results are delivered once, whichever it is.
type Profile string

// The profiles.
const (
	// ProfilePush brings results by themselves; the model never asks for them.
	ProfilePush Profile = "push"
	// ProfileCollect has the model fetch results, and ends the run with its answer: who
	// is still at work then is ended.
	ProfileCollect Profile = "collect"
	// ProfileFull does both.
	ProfileFull Profile = "full"
)

// ParseProfile returns the profile of the name; "" is ProfileFull.
func ParseProfile(name string) (Profile, error) {
	switch p := Profile(name); p {
	case "":
		return ProfileFull, nil
	case ProfilePush, ProfileCollect, ProfileFull:
		return p, nil
	}
	return "", mesh.InvalidField("dispatch.ParseProfile", "profile", "is %q; it must be %s, %s or %s", name, ProfilePush, ProfileCollect, ProfileFull)
}
