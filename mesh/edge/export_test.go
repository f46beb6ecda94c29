package edge

// MaxMessage is the longest message of a user, in bytes.
const MaxMessage = maxMessage
