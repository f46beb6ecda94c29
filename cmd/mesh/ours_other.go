//go:build !unix

package main

import "os"

// ours reports that the file may be the user's own: here that is not known.
func ours(os.FileInfo) bool { return true }
