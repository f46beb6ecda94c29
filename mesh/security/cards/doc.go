// Package cards writes, signs and verifies agent cards (A2A v1.0 §8).
//
// # What it guarantees
//
// A card has one canonical form: the members that A2A v1.0 §8.4.1 wants
// present, in the order and notation of RFC 8785, without its signatures. A
// signature is a detached JWS (RFC 7515, appendix F) over that form by ES256;
// the same card signed by the same keys is the same bytes every time, so that
// a document's hash tells whether it changed.
//
// [Keys.Write] makes the JSON that is published. In the union mode it also
// says what clients of A2A v0.3 look for, as far as the card has interfaces of
// that version, and is signed twice by each key: over the canonical form, for
// verifiers that read the card into the types of v1.0, and over the document as
// it stands, for those that take the JSON itself.
//
// A [Verifier] believes a key that its operator put into a trust store, or one
// that is published, at the jku of the signature, by a host that may speak for
// the card. It never believes a key that is expired, not valid yet, or revoked.
//
// # Rotation
//
// A key file is a sequence of PEM blocks and every key in it signs. To replace
// a key, put a new one before it and start the node again; when caches have
// expired, remove the old one.
//
// # Concurrency
//
// Keys do not change. A Verifier may be used concurrently; it starts no
// goroutine. Both are without state on disk but for the key file.
//
// # What it is not
//
// It does not judge whether a card is a good one (package registry does), and
// a verified card says who wrote it, not that its agent means well.
package cards
