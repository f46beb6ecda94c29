//go:build !unix

package disk

import "errors"

// fullEnv is set where files can be limited, and here never.
const fullEnv = "DISK_TEST_FULL"

func full(string) error { return errors.ErrUnsupported }
