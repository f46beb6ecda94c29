package call

// MaxAnswer is what an answer may have in tests, in bytes.
const MaxAnswer = 2 << 20

// LessAnswer has answers bounded by that.
func LessAnswer() { maxAnswer = MaxAnswer }
