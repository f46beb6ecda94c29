package grant

import (
	"crypto/ed25519"
	"crypto/sha256"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxKnown is how many tokens this process remembers to have signed or checked:
// those of the executions at work, as an agent sends its token with every call.
const maxKnown = 2048

// A tokenID stands for a token, its kind and the key with which it is checked: the token
// itself is a secret that is not to lie about.
type tokenID struct {
	kind       kind
	key, token [sha256.Size]byte
}

// known has the payloads of tokens whose signature is known to be right, for all
// verifiers and signers of the process: a signature is a matter of the token, its kind and
// the key alone. Whether a token has expired is asked each time.
var known = func() *lru.Cache[tokenID, *payload] {
	c, err := lru.New[tokenID, *payload](maxKnown)
	if err != nil {
		panic(err) // for a size that is not above 0
	}
	return c
}()

func idOf(k kind, key ed25519.PublicKey, token string) tokenID {
	return tokenID{k, [sha256.Size]byte(key), sha256.Sum256([]byte(token))}
}
