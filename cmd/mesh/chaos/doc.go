// Package chaos proves by its test that a mesh keeps its promises whatever
// happens to its process. The test builds the binary, runs 'mesh up' on a folder
// of its own, and kills, stops and suspends it under conversations that have
// effects, over gRPC and REST, whose clients resume by cursor. It uses the
// public interfaces alone, and knows nothing of how the mesh is made.
//
// make chaos runs 200 rounds; make test a sample that takes seconds.
package chaos
