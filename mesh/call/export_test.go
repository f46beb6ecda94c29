package call

// MaxAnswer is what an answer may have in tests, in bytes.
const MaxAnswer = 2 << 20

func init() { maxAnswer = MaxAnswer }
