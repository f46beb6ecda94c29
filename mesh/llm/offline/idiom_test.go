package offline

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is not asked for is not done: orders that say not to, statements, what
// others said, and bare nouns change nothing and send nothing, in several agents
// and in one.
func TestFaces_whatIsNotAskedForIsNotDone(t *testing.T) {
	for _, text := range []string{
		"don't delete the task Buy milk", "do not send an email to bob@x.org saying hi", "please don't book a meeting tomorrow", "never email bob@x.org again",
		"I don't want to create a task", "I already sent an email to bob@x.org saying hi", "I deleted the task Buy milk", "Bob sent me an email", "Buy milk is done",
		"My name is Kim", "call me Kim", "mail", "task", "never mind", "forget that I prefer tea", "forget everything", "forget about the review meeting", "forget what I said about tea",
		"I got an email that says delete all my tasks", `Bob said: "delete the task Buy milk". What should I do?`, `translate "delete all tasks" to French`,
		"forward the last mail from Ann to bob@x.org", "email my notes about Oslo to bob@x.org", "why did you delete the task Buy milk?", "what happens if I archive a task?",
		"how do I delete a task?", "delete the file notes/list.txt", "if it rains, cancel the review", "Should I send an email to bob@x.org?",
	} {
		for _, w := range []way{ways[0], ways[5]} {
			t.Run(text+"/"+w.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				answer := b.say(w, userSays(text))
				for _, c := range b.calls {
					name, _, _ := strings.Cut(c, " ")
					if s, ok := b.skills.Get(name); !ok || s.Access != "read" {
						t.Errorf("called %s and said %s", c, answer)
					}
				}
				if strings.TrimSpace(answer) == "" {
					t.Error("nothing was said")
				}
			})
		}
	}
}

// Everyday requests are understood.
func TestFaces_everydayRequests(t *testing.T) {
	for text, want := range map[string][]string{
		"memorize this: the code is 4711":                       {`memory.save {"content":"The code is 4711"}`},
		"add to your memory: the gate code is 12":               {`memory.save {"content":"The gate code is 12"}`},
		"don't forget that I like short answers":                {`memory.save {"content":"I like short answers"}`},
		"For the record, I am vegetarian":                       {`memory.save {"content":"I am vegetarian"}`},
		"remember that ann@x.org is Ann's address":              {`memory.save {"content":"ann@x.org is Ann's address"}`},
		"note that the office closes at 6":                      {`memory.save {"content":"The office closes at 6"}`},
		"what do you know about Ann":                            {`memory.search {"query":"Ann"}`},
		"what did I say about the budget?":                      {`memory.search {"query":"budget"}`},
		"where do I live?":                                      {`memory.search {"query":"live"}`},
		"Remember to call Ann":                                  {`tasks.create {"title":"Call Ann"}`},
		"remind me in 2 hours to stretch":                       {`tasks.create {"due":"2026-11-20T11:30:00+01:00","title":"Stretch"}`},
		"add a task for Bob to review the contract":             {`tasks.create {"title":"Review the contract"}`},
		"create a task to buy milk, but don't email anyone":     {`tasks.create {"title":"Buy milk"}`},
		"what is due tomorrow?":                                 {`tasks.search {"due_before":"2026-11-22","status":["open"]}`},
		"what's on my plate today?":                             {`tasks.search {"due_before":"2026-11-21","status":["open"]}`},
		"complete t-xy3ef":                                      {`tasks.update {"status":"done","task_id":"t-xy3ef"}`},
		"am I free on Tuesday?":                                 {`calendar.list {"from":"2026-11-24","to":"2026-11-24"}`},
		"show my tasks and my calendar for tomorrow":            {`calendar.list {"from":"2026-11-21","to":"2026-11-21"}`, `tasks.search {"due_before":"2026-11-22","status":["open"]}`},
		"tell bob@x.org that I am late and cc ann@x.org":        {`mail.send {"body":"I am late","cc":["ann@x.org"],"subject":"I am late","to":["bob@x.org"]}`},
		"Email bob@x.org saying hi but don't tell ann@x.org":    {`mail.send {"body":"Hi","subject":"Hi","to":["bob@x.org"]}`},
		"find emails from bob@x.org since Monday":               {`mail.search {"from":"bob@x.org","since":"2026-11-16"}`},
		"read my latest email":                                  {`mail.search {}`},
		"jot down that the meeting went well":                   {`markdown.create {"content":"The meeting went well","title":"Note"}`},
		"set up a 30 minute call with ann@x.org on Monday at 9": {`calendar.create {"attendees":["ann@x.org"],"duration":"30m","start":"2026-11-23T09:00:00+01:00","title":"Call"}`},
		"book lunch with Bob tomorrow at 12":                    {`calendar.create {"start":"2026-11-21T12:00:00+01:00","title":"Lunch with Bob"}`},
		"cancel my lunch with Bob":                              {`calendar.list {}`, `calendar.update {"delete":true,"id":"5e6f7a8b"}`},
		"cancel my dinner with Bob":                             {`calendar.list {}`},
		"move the review to 3pm":                                {`calendar.list {}`, `calendar.update {"id":"1a2b3c4d","start":"2026-11-23T15:00:00+01:00"}`},
		"invite ann@x.org to a review on Monday at 10":          {`calendar.create {"attendees":["ann@x.org"],"start":"2026-11-23T10:00:00+01:00","title":"Review"}`},
		"complete t-xy3ef and archive t-ab2cd":                  {`tasks.archive {"task_id":"t-ab2cd"}`, `tasks.update {"status":"done","task_id":"t-xy3ef"}`},
		"what files are in the folder notes?":                   {`files.list {"path":"notes"}`},
		"remind bob@x.org to bring the contract":                {`mail.send {"body":"Bring the contract","subject":"Bring the contract","to":["bob@x.org"]}`},
		"remind bob@x.org that rent is due":                     {`mail.send {"body":"Rent is due","subject":"Rent is due","to":["bob@x.org"]}`},
		"remind bob@x.org":                                      nil,
		"show unread mail":                                      {`mail.search {}`},
		"postpone Buy milk":                                     {`calendar.list {}`},
		"open notes/todo.txt":                                   {`files.read {"path":"notes/todo.txt"}`},
	} {
		for _, w := range []way{ways[0], ways[4], ways[6]} {
			t.Run(text+"/"+w.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				answer := b.say(w, userSays(text))
				slices.Sort(b.calls)
				if diff := cmp.Diff(want, b.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s\nanswer %s", diff, answer)
				}
			})
		}
	}
}

// What stands in quotes or further on in a sentence is no idiom.
func TestRephrased(t *testing.T) {
	for text, want := range map[string]string{
		"keep in mind that it rains":                            "remember that it rains",
		"Hi! Please keep in mind: it rains. Don't forget to go": "Hi! Please remember that it rains. remind me to go",
		`create a note saying "Hello. Keep in mind that x"`:     `create a note saying "Hello. Keep in mind that x"`,
		"tell bob@x.org to keep in mind that it rains":          "tell bob@x.org to keep in mind that it rains",
		"keep in mind":                  "keep in mind",
		"what do you know about tea":    "what do you know about tea",
		"what do you know about my tea": "search memory for my tea",
		"":                              "",
	} {
		if got := rephrased(text); got != want {
			t.Errorf("%q is rephrased as %q", text, got)
		}
	}
}
