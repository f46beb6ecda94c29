package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/security/keyfile"
)

// expand replaces ${NAME} in secrets by the environment's value, and ${file:PATH} by what the
// file has.
func (c *Config) expand() error {
	value := func(field, s string) (string, error) {
		name, ok := strings.CutPrefix(s, "${")
		if !ok || !strings.HasSuffix(name, "}") {
			return s, nil
		}
		name = strings.TrimSuffix(name, "}")
		if path, ok := strings.CutPrefix(name, "file:"); ok {
			if c.file != nil && !filepath.IsAbs(path) { // as all paths of the file
				path = filepath.Join(filepath.Dir(c.file.name), path)
			}
			data, err := keyfile.Read(path)
			if err != nil {
				return "", mesh.InvalidField("node.Config", field, "names a file: %s", mesh.DetailOf(err))
			}
			return strings.TrimRight(string(data), "\r\n"), nil
		}
		v, ok := os.LookupEnv(name)
		if !ok {
			return "", mesh.InvalidField("node.Config", field, "names the environment variable %s, which is not set", name)
		}
		return v, nil
	}
	var err error
	for _, s := range []struct {
		field string
		at    *string
	}{{"smtp.password", &c.SMTP.Password}, {"model.key", &c.Model.Key}, {"embedding.key", &c.Embedding.Key}, {"voice.transcription.key", &c.Voice.Transcription.Key}, {"voice.speech.key", &c.Voice.Speech.Key}} {
		if *s.at, err = value(s.field, *s.at); err != nil {
			return err
		}
	}
	for i := range c.Accounts {
		for name, at := range c.Accounts[i].secrets() {
			if *at, err = value(fmt.Sprintf("accounts[%d].%s", i, name), *at); err != nil {
				return err
			}
		}
	}
	for i := range c.Model.Fallbacks {
		if c.Model.Fallbacks[i].Key, err = value(fmt.Sprintf("model.fallbacks[%d].key", i), c.Model.Fallbacks[i].Key); err != nil {
			return err
		}
	}
	for name, m := range c.Models {
		if m.Key, err = value("models."+name+".key", m.Key); err != nil {
			return err
		}
		m.Fallbacks = slices.Clone(m.Fallbacks)
		for i := range m.Fallbacks {
			if m.Fallbacks[i].Key, err = value(fmt.Sprintf("models.%s.fallbacks[%d].key", name, i), m.Fallbacks[i].Key); err != nil {
				return err
			}
		}
		c.Models[name] = m
	}
	for name, s := range c.HTTPSkills.Secrets {
		if s.Value, err = value("http_skills.secrets."+name, s.Value); err != nil {
			return err
		}
		c.HTTPSkills.Secrets[name] = s
	}
	groups := map[string]map[string]string{}
	for name, s := range c.MCP.Servers {
		groups["mcp.servers."+name+".env"], groups["mcp.servers."+name+".headers"] = s.Env, s.Headers
	}
	for field, group := range groups {
		for k, v := range group {
			if group[k], err = value(field+"."+k, v); err != nil {
				return err
			}
		}
	}
	return nil
}
