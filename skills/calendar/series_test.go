package calendar

import "testing"

// The id of a date of a series is that of the series with the date; other ids stay whole.
func TestParted_leavesNamesOfFilesAlone(t *testing.T) {
	for id, want := range map[string][2]string{
		"1a2b3c4d": {"1a2b3c4d", ""}, "1a2b3c4d@20261201T130000Z": {"1a2b3c4d", "20261201T130000Z"}, "1a2b3c4d@20261201": {"1a2b3c4d", "20261201"},
		"abc@example.com": {"abc@example.com", ""}, "abc@example.com@20261201": {"abc@example.com", "20261201"}, "": {"", ""},
	} {
		if event, date := parted(id); event != want[0] || date != want[1] {
			t.Errorf("%q is %q and %q", id, event, date)
		}
	}
}
