package llm_test

import (
	"context"
	"fmt"

	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
)

// A loop asks the model, runs what it calls, and asks again.
func ExampleLoop_Run() {
	model := scripted.New(
		scripted.Call("a", `{"city":"Oslo"}`),
		scripted.Say("It rains ", "in Oslo."),
	)
	loop := llm.Loop{Model: model, Tools: tools{"a": func(context.Context, string) llm.ToolResult {
		return llm.ToolResult{Text: "rain"}
	}}}
	for e, err := range loop.Run(context.Background(), []llm.Message{{Role: llm.RoleUser, Text: "How is the weather in Oslo?"}}) {
		switch {
		case err != nil:
			fmt.Println("error:", err)
		case e.Result != nil:
			fmt.Println("tool said:", e.Result.Text)
		case e.Text != "":
			fmt.Printf("model said: %q\n", e.Text)
		}
	}
	// Output:
	// tool said: rain
	// model said: "It rains "
	// model said: "in Oslo."
}
