package trail_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/audit/trail"
)

func redactor(t testing.TB, r trail.Rules) *trail.Redactor {
	t.Helper()
	red, err := trail.NewRedactor("audit.redact", r)
	if err != nil {
		t.Fatal(err)
	}
	return red
}

// Secrets that are known by how they look, or by the names of their fields, are taken out of
// prose and JSON; what only resembles one stays.
func TestSecretsAreTakenOut(t *testing.T) {
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----"
	red := redactor(t, trail.Rules{Patterns: []string{`EMP-\d{6}`}, Fields: []string{"tax_id"}})
	for _, c := range []struct{ text, want string }{
		{"my password is hunter2, thanks", "my password is [redacted], thanks"},
		{"API_KEY=abc123 go", "API_KEY=[redacted] go"},
		{"Mein Passwort ist hunter3.", "Mein Passwort ist [redacted]"},
		{"the password for gmail is hunter4, the one for my old bank is the same", "the password for gmail is [redacted], the one for my old bank is the same"},
		{"Kennwort für das WLAN: hunter5", "Kennwort für das WLAN: [redacted]"},
		{"pw=hunter6 and pw: hunter7, but no mpw=8", "pw=[redacted] and pw: [redacted], but no mpw=8"},
		{"AWS secret access key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS secret access key [redacted]"},
		{"a token of-somebody-who-waits and the key internationalization", "a token of-somebody-who-waits and the key internationalization"},
		{"the key to success is hard work", "the key to success is hard work"},
		{"Authorization: Basic dXNlcjpwYXNz\nnext", "Authorization: [redacted]\nnext"},
		{"send Bearer abc.def-123 now", "send Bearer [redacted] now"},
		{"a bearer certificate and basic knowledge", "a bearer certificate and basic knowledge"},
		{"key sk-abcdefghijklmnop1234 end", "key [redacted] end"},
		{"AKIAABCDEFGHIJKLMNOP", "[redacted]"},
		{"ghp_0123456789abcdefghijABCDEFGHIJ", "[redacted]"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln rest", "[redacted] rest"},
		{"xoxb-1234567890-abcdef", "[redacted]"},
		{"git clone https://bob:s3cret@host/x", "git clone https://[redacted]@host/x"},
		{"https://host/x?a=1&sig=QWERTY&b=2", "https://host/x?a=1&sig=[redacted]&b=2"},
		{"see\n" + pem + "\nend", "see\n[redacted]\nend"},
		{"see -----BEGIN PRIVATE KEY-----\nMIIE", "see [redacted]"},
		{"badge EMP-123456", "badge [redacted]"},
		{"the token count is 3 and passwords matter", "the token count is 3 and passwords matter"},
		{`{"user":"ann","password":"a \"b\" c","n":1.50}`, `{"user":"ann","password":"[redacted]","n":1.50}`},
		{`{"clientSecret":{"a":["x",{"b":1}]},"z":true}`, `{"clientSecret":"[redacted]","z":true}`},
		{`{"X-Api-Key":["k1","k2"],"max_tokens":5,"next":null}`, `{"X-Api-Key":"[redacted]","max_tokens":5,"next":null}`},
		{`{"TaxID":17,"a":1,"a":2}`, `{"TaxID":"[redacted]","a":1,"a":2}`},
		{`{"body":"{\"token\":\"t\",\"k\":[1]}"}`, `{"body":"{\"token\":\"[redacted]\",\"k\":[1]}"}`},
		{`[{"secret":"x"},"Bearer ab12cd34"]`, `[{"secret":"[redacted]"},"Bearer [redacted]"]`},
		{`{"a":"b","password":"hun`, `{"a":"b","password":"[redacted]"`},
		{`{"a":"b","credentials":{"user":"u","va`, `{"a":"b","credentials":"[redacted]"`},
		{"[a link](https://x) with password: pw1", "[a link](https://x) with password: [redacted]"},
		{"{not json} token=abc", "{not json} token=[redacted]"},
		{"日本語 password=ひみつ 終", "日本語 password=[redacted] 終"},
		{"", ""},
	} {
		got, n := red.Text(c.text)
		if got != c.want || (n > 0) != strings.Contains(c.want, trail.Mark) {
			t.Errorf("%q is shown as %q (%d), want %q", c.text, got, n, c.want)
		}
		if again, n := red.Text(got); again != got || n > 0 && !strings.Contains(got, `"`) {
			t.Errorf("%q is shown as %q when it is redacted again", got, again)
		}
	}
}

// A secret is taken out whole, also where it has spaces or signs, and however it is named; the
// words of sentences about secrets stay.
func TestSecretsAreTakenOutWhole(t *testing.T) {
	red := redactor(t, trail.Rules{})
	for text, want := range map[string]string{
		// Up to the quote that closes it.
		`pwd="a b c d"`:                      `pwd=[redacted]`,
		`pwd="a b c d", user="ann"`:          `pwd=[redacted], user="ann"`,
		`the password = "correct horse"`:     `the password = [redacted]`,
		`the password = "correct horse`:      `the password = [redacted]`,
		`password: 'a "b" c' end`:            `password: [redacted] end`,
		`"password": "a \"b\" c", "n": 1`:    `"password": [redacted], "n": 1`,
		`a password=\"a b c\" end`:           `a password=[redacted] end`,
		"the secret is `a b`, ok":            "the secret is [redacted], ok",
		"das Passwort ist „a b c“ und":       "das Passwort ist [redacted] und",
		"the token is “a b”, ok":             "the token is [redacted], ok",
		"password: \"two\nlines\" end":       "password: [redacted] end",
		`the password "correct horse" opens`: `the password [redacted] opens`,
		// Up to the end of the sentence.
		"my passphrase is correct horse battery staple":             "my passphrase is [redacted]",
		"The passphrase: correct horse v1.2 staple! Keep it.":       "The passphrase: [redacted]! Keep it.",
		`the passphrase is "correct horse", said Ann`:               "the passphrase is [redacted], said Ann",
		"recovery phrase = one two three\nport: 80":                 "recovery phrase = [redacted]\nport: 80",
		"my credentials are not here. The credentials: bob / a b c": "my credentials are not here. The credentials: [redacted]",
		"passphrase for the disk is sk-abcdefghijklmnop1234 and so": "passphrase for the disk is [redacted]",
		// Up to the space.
		"password=a,b;c&d go":          "password=[redacted] go",
		"password is P@ss&w'o\"rd, ok": "password is [redacted], ok",
		// By other words.
		"Passwort lautet swordfish":                            "Passwort lautet [redacted]",
		"Das Passwort für den Server lautet: swordfish ":       "Das Passwort für den Server lautet: [redacted] ",
		"my password's hunter2":                                "my password's [redacted]",
		"my password’s swordfish":                              "my password’s [redacted]",
		"the old password was swordfish":                       "the old password was [redacted]",
		"the password is now swordfish":                        "the password is now [redacted]",
		"the password is: swordfish":                           "the password is: [redacted]",
		"password -> swordfish, secret => x":                   "password -> [redacted], secret => [redacted]",
		"password hunter2":                                     "password [redacted]",
		"log in with password hunter2, then read":              "log in with password [redacted], then read",
		"set the password to hunter2.":                         "set the password to [redacted].",
		"the secret token abc123":                              "the secret token [redacted]",
		"password 12345":                                       "password [redacted]",
		"AccountName=x;AccountKey=abc/def+g==":                 "AccountName=x;AccountKey=[redacted]",
		"PIN is 4711":                                          "PIN is [redacted]",
		"my PIN for the card is 47 11, thanks":                 "my PIN for the card is [redacted], thanks",
		"PIN: 0815 and PUK 12345678":                           "PIN: [redacted] and PUK [redacted]",
		"use npm_abcdefghijABCDEFGHIJ0123456789abcdef":         "use [redacted]",
		"a ya29.a0AfH6SMBx-abc_DEF end":                        "a [redacted] end",
		`{"passwort":"a b","accountKey":"k","PIN":1234,"x":1}`: `{"passwort":"[redacted]","accountKey":"[redacted]","PIN":"[redacted]","x":1}`,
		// No secret.
		"the password must have 12 characters":            "",
		"a password needs 8 to 64 characters and 1 digit": "",
		"the password is required":                        "",
		"The token was expired.":                          "",
		"Das Passwort ist falsch":                         "",
		"the password is not what we look for":            "",
		"token 3 of 512 was read, cookie 12 not":          "",
		"send the password to ann9@example.com":           "",
		"post the token to https://host:8080/v1":          "",
		"npm_config_registry and npm_lifecycle_event":     "",
		"pin 2 messages, the pin is on the map":           "",
		"spin 1234 and the opinion is 4711":               "",
		"a keyboard, a monkey = 1 and the key 17":         "",
		"secrets of 1984, and their tokens":               "",
	} {
		if want == "" {
			want = text
		}
		got, n := red.Text(text)
		if got != want || (n > 0) != (want != text) {
			t.Errorf("%q is shown as %q (%d), want %q", text, got, n, want)
		}
		if again, _ := red.Text(got); again != got {
			t.Errorf("%q is shown as %q when it is redacted again", got, again)
		}
	}
}

// Whatever JSON there is, it stays what it was, but for values of secret fields.
func TestRedactedJSONIsWhatItWas(t *testing.T) {
	red := redactor(t, trail.Rules{})
	const leaf = "zq-value"
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{rapid.Just(any(nil)), rapid.Just(any(true)), rapid.Just(any(1.5)), rapid.Just(any(leaf)), rapid.Just(any("a \"q\" \\ é"))}
		if depth > 0 {
			names := rapid.SampledFrom([]string{"a", "b c", "password", "é", "access_token"})
			kinds = append(kinds, rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list") }),
				rapid.Custom(func(t *rapid.T) any { return rapid.MapOfN(names, value(depth-1), 0, 3).Draw(t, "map") }))
		}
		return rapid.OneOf(kinds...)
	}
	var hide func(v any) any
	hide = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, e := range v {
				if out[k] = hide(e); e != nil && (k == "password" || k == "access_token") {
					out[k] = trail.Mark
				}
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = hide(v[i])
			}
			return out
		}
		return v
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Custom(func(t *rapid.T) any { return []any{value(3).Draw(t, "v")} }).Draw(t, "all")
		in, _ := json.MarshalIndent(v, "", " ")
		want, _ := json.Marshal(hide(v))
		got, _ := red.Text(string(in))
		var a, b any
		if err := json.Unmarshal([]byte(got), &a); err != nil {
			t.Fatalf("%s became %s: %v", in, got, err)
		}
		_ = json.Unmarshal(want, &b)
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if string(x) != string(y) {
			t.Fatalf("%s became %s, want %s", in, x, y)
		}
	})
}

// A rule that is none is named with what to do.
func TestBadRulesAreNamed(t *testing.T) {
	many := make([]string, trail.MaxFields+1)
	for i := range many {
		many[i] = "x"
	}
	for field, r := range map[string]trail.Rules{
		"audit.redact.patterns[1]": {Patterns: []string{"ok", "("}},
		"audit.redact.patterns[0]": {Patterns: []string{"a*"}},
		"audit.redact.patterns[2]": {Patterns: []string{"a", "b", strings.Repeat("x", trail.MaxPattern+1)}},
		"audit.redact.patterns":    {Patterns: many[:trail.MaxPatterns+1]},
		"audit.redact.fields":      {Fields: many},
		"audit.redact.fields[0]":   {Fields: []string{"--"}},
	} {
		if _, err := trail.NewRedactor("audit.redact", r); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != field {
			t.Errorf("%s: %v names %q", field, err, mesh.FieldOf(err))
		}
	}
}

// Whatever text there is, taking secrets out ends, leaves text that can be sent and no longer
// than it may be, and finds a field's secret in all JSON that can be read.
func FuzzRedactedText(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,"x",null,true]},"password":{"c":"d"}} {"e":1}`, `["a`, `{"a"`, `[[[[]]]]`, `}{`, "token is: is = is", `{"a":"{\"a\":\"{}\"}"}`, "-----BEGIN PRIVATE KEY-----", "https://:@", "\x00\xff", `[1e999999999]`} {
		f.Add(s)
	}
	red, err := trail.NewRedactor("r", trail.Rules{Patterns: []string{"[^x]+y"}, Fields: []string{"é"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, n := red.Text(s)
		if utf8.ValidString(s) && !utf8.ValidString(got) || n < 0 || len(got) > 8*len(s)+len(trail.Mark)*(n+1) {
			t.Errorf("%q is shown as %q (%d)", s, got, n)
		}
		if json.Valid([]byte(s)) {
			const leak = "zq-leak"
			in := `{"x":[` + s + `,{"my_password":["` + leak + `"]}]}`
			if out, _ := red.Text(in); strings.Contains(out, leak) {
				t.Errorf("%q is shown as %q", in, out)
			}
		}
	})
}
