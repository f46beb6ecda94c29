// Package apitest is what doubles of the mesh.v1 services share, so that they answer
// as the real ones do: tests of package api compare the two.
//
// Its functions keep nothing and may be called concurrently.
package apitest

import (
	"cmp"

	meshv1 "agentmesh/gen/mesh/v1"
)

// usual is how many events are on a page when the request does not say.
const usual = 100

// Page answers a ReadThread with those of all events of a thread, in order and
// numbered from 1, that the request asks for. With most it puts no more on a page:
// pages may be smaller than asked for.
func Page(all []*meshv1.Event, req *meshv1.ReadThreadRequest, most int) *meshv1.ReadThreadResponse {
	last := len(all)
	if before := int(req.GetBeforeSeq()); before > 0 {
		last = min(last, before-1)
	}
	asked := all[min(int(req.GetAfterSeq()), last):last]
	n := min(len(asked), cmp.Or(int(req.GetLimit()), usual))
	if most > 0 {
		n = min(n, most)
	}
	page := asked[:n]
	if req.GetTail() {
		page = asked[len(asked)-n:]
	}
	return &meshv1.ReadThreadResponse{Events: page, More: n < len(asked)}
}
