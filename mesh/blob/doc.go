// Package blob keeps bytes that are too large for the log, by what they are.
//
// A [Store] is a folder. What is in it belongs to threads: each has the bytes that its events
// refer to ([mesh.Blob]), and what was uploaded for messages to come. Bytes that several threads
// of a tenant have are there once, as one file with several names, and go with the last thread;
// tenants share nothing, and who uploads something learns nothing of whether it was there.
//
// # What it guarantees
//
// Bytes have their name when they are whole, compared with it, and on the disk, and not before.
// An event that refers to bytes is added after that: [Store.Keep] sees to it, and keeps them until
// the event is added or not. Whatever a process leaves that is killed in between is an upload,
// which [Store.Sweep] settles: it stays if an event of its thread refers to it, and goes an hour
// after it was last touched if none does.
//
// An upload goes on where it was cut off, also after a restart, with as much memory as one piece
// has.
//
// # What may run concurrently
//
// Everything, in one process. An upload has one writer.
//
// # What it is not
//
// It does not know who may read a thread, and speaks to nobody: package api does. It counts what
// tenants have ([Store.Bytes]), and bounds only what nothing refers to.
package blob
