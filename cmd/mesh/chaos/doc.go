// Package chaos proves by its test that a mesh keeps its promises whatever
// happens to its process and its disk. The test builds the binary, runs 'mesh up'
// on a folder of its own, and kills, stops and suspends it under conversations that
// have effects, over gRPC and REST, whose clients resume by cursor; it takes the
// room for files away, and has writes and syncs of the log fail. Another one restarts it under
// load, with clients that try nothing again. In another test
// agents and clients are processes of their own, too, and any of them is killed while
// conversations are handed over and back. It uses the public
// interfaces alone, and knows nothing of how the mesh is made but the one file in
// whose place it builds a disk that can fail.
//
// make chaos runs 300 rounds, 15 restarts, and 200 conversations with handoffs; make test a sample of
// each that takes seconds.
package chaos
