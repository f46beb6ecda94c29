package openai

import (
	"fmt"
	"testing"

	"agentmesh/mesh/llm"
)

// Arguments arrive in pieces of some bytes: what that costs grows with their
// number and not with its square.
func BenchmarkChatReply_arguments(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			piece := []byte(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"abcd"}}]}}]}`)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				r := &chatReply{}
				for range size / 4 {
					if _, err := r.add(piece); err != nil {
						b.Fatal(err)
					}
				}
				got := 0
				if err := r.finish(func(c llm.Chunk, _ error) bool {
					if c.Tool != nil {
						got = len(c.Tool.Arguments)
					}
					return true
				}); err != nil || got != size {
					b.Fatalf("%d bytes of arguments, error %v", got, err)
				}
			}
		})
	}
}
