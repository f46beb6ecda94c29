package grant

// Forget makes this process one that has seen no token.
func Forget() { known.Purge() }
