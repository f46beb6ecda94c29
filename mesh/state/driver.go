package state

import "agentmesh/mesh"

// NotFound is a driver's error for a value that does not exist.
func NotFound(op string, key Key) error {
	return mesh.Errorf(mesh.NotFound, op, "There is no value %q of kind %q", key.Name, key.Kind)
}

// CheckPut is a driver's decision whether a value that has the version is (0:
// there is none) may be replaced by a writer who expects want.
func CheckPut(op string, key Key, is, want int64) error {
	if want == AnyVersion || want == is {
		return nil
	}
	return mesh.Errorf(mesh.Conflict, op,
		"Value %q of kind %q has version %d and not %d; read it again and decide again", key.Name, key.Kind, is, want)
}

// CheckDelete is a driver's decision whether such a value may be removed.
func CheckDelete(op string, key Key, is, want int64) error {
	if is == 0 {
		return NotFound(op, key)
	}
	return CheckPut(op, key, is, want)
}
