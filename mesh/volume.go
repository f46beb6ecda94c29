package mesh

// A Volume is how much of a log events are.
type Volume struct {
	Events int64
	Bytes  int64 // of their records
}

// Plus returns the sum.
func (v Volume) Plus(w Volume) Volume { return Volume{v.Events + w.Events, v.Bytes + w.Bytes} }

// Volume is how much of its log the event is.
func (e *Event) Volume() Volume { return Volume{1, int64(e.Size)} }
