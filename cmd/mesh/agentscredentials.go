package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// credentialHelp says how credentials are given.
const credentialHelp = `What the agent wants to be called with is given by --credential SCHEME=SOURCE, once for
each credential. SCHEME is the name of a security scheme on its card, or a kind if the card
has one of it (bearer, basic, apiKey, oauth2, mtls), or the place of an API key (header:NAME,
query:NAME, cookie:NAME); a card that is itself protected needs a kind or a place. SOURCE is
env:VARIABLE, file:PATH or prompt. The value is a token or key, user:password for basic,
client_id:client_secret for oauth2, and for mtls a certificate with its key, in PEM; given
twice, as of two files, it is one after the other. It is never shown.`

func credentialFlag(cmd *cobra.Command, given *[]string) {
	cmd.Flags().StringArrayVar(given, "credential", nil, "what the agent is called with, as `SCHEME=SOURCE`: env:VARIABLE, file:PATH or prompt")
}

func (a *app) agentsCredentialsCommand() *cobra.Command {
	return group("credentials", "Give what an agent wants to be called with, or take it away",
		"  mesh agents credentials set translate --credential bearer=env:TRANSLATE_TOKEN\n  mesh agents credentials clear translate",
		a.credentialsSetCommand(), a.credentialsClearCommand())
}

func (a *app) credentialsSetCommand() *cobra.Command {
	var req meshv1.SetAgentCredentialsRequest
	var given []string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Give an agent's credentials, in place of all that were given before",
		Long:  "Give what an agent is called with, in place of all that was given before. It is kept\nencrypted.\n\n" + credentialHelp,
		Example: `  mesh agents credentials set translate --credential bearer=env:TRANSLATE_TOKEN
  mesh agents credentials set translate --credential basic=prompt
  mesh agents credentials set translate --credential mtls=file:client.crt --credential mtls=file:client.key`,
		ValidArgsFunction: a.offer(agentNames),
		Args:              exactly("the agent's name"),
		RunE: a.prepared(a.credentials(&given, &req.Credentials), func(ctx context.Context, c *client, args []string) error {
			if len(given) == 0 {
				return mesh.InvalidField("mesh.agents", "--credential", "is missing; to take credentials away use 'mesh agents credentials clear'")
			}
			return a.setCredentials(ctx, c, args[0], &req)
		}),
	}
	cmd.Flags().BoolVar(&req.Shared, "shared", false, "the agent is shared; for operators")
	credentialFlag(cmd, &given)
	return cmd
}

func (a *app) credentialsClearCommand() *cobra.Command {
	var req meshv1.SetAgentCredentialsRequest
	cmd := &cobra.Command{
		Use:               "clear NAME",
		Short:             "Take an agent's credentials away",
		Example:           `  mesh agents credentials clear translate`,
		ValidArgsFunction: a.offer(agentNames),
		Args:              exactly("the agent's name"),
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			return a.setCredentials(ctx, c, args[0], &req)
		}),
	}
	cmd.Flags().BoolVar(&req.Shared, "shared", false, "the agent is shared; for operators")
	return cmd
}

func (a *app) setCredentials(ctx context.Context, c *client, name string, req *meshv1.SetAgentCredentialsRequest) error {
	req.Name = name
	resp, err := c.agents.SetAgentCredentials(c.call(ctx, a.flags.thread), req)
	if err != nil {
		return err
	}
	ag := resp.GetAgent()
	if len(ag.GetCredentials()) == 0 {
		a.printf("%s has no credentials\n", oneLine(ag.GetName()))
	}
	for _, s := range ag.GetCredentials() {
		a.printf("%s: %s (%s) set\n", oneLine(ag.GetName()), oneLine(s.GetScheme()), oneLine(s.GetKind()))
	}
	a.printf("%s", warningText(ag))
	return nil
}

// credentials has what the flags name read into a request.
func (a *app) credentials(given *[]string, into *[]*meshv1.AgentCredential) func(context.Context) error {
	return func(context.Context) (err error) {
		*into, err = a.readCredentials(*given)
		return err
	}
}

// readCredentials reads what flags name. Errors do not hold what is read, and of a flag only
// what cannot be a secret.
func (a *app) readCredentials(given []string) ([]*meshv1.AgentCredential, error) {
	const op, flag = "mesh.agents", "--credential"
	var all []*meshv1.AgentCredential
	byScheme := map[string]*meshv1.AgentCredential{}
	for _, g := range given {
		scheme, source, ok := strings.Cut(g, "=")
		if !ok || scheme == "" {
			return nil, mesh.InvalidField(op, flag, "must be SCHEME=env:VARIABLE, SCHEME=file:PATH or SCHEME=prompt; values are not given on the command line, where others see them")
		}
		value, err := a.source(scheme, source)
		if err != nil {
			return nil, err
		}
		if value = strings.TrimSpace(value); value == "" {
			return nil, mesh.InvalidField(op, flag, "%s has nothing: what it names is empty or not set", oneLine(scheme))
		}
		if c := byScheme[scheme]; c != nil {
			c.Value += "\n" + value
			continue
		}
		byScheme[scheme] = &meshv1.AgentCredential{Scheme: scheme, Value: value}
		all = append(all, byScheme[scheme])
	}
	return all, nil
}

// source reads the value of a credential.
func (a *app) source(scheme, source string) (string, error) {
	const op, flag = "mesh.agents", "--credential"
	kind, at, _ := strings.Cut(source, ":")
	switch {
	case kind == "env" && at != "":
		return a.getenv(at), nil
	case kind == "file" && at != "":
		data, err := os.ReadFile(at)
		if err != nil {
			return "", mesh.Errorf(mesh.Invalid, op, "%s of %s cannot be read: %v", flag, oneLine(scheme), err)
		}
		return string(data), nil
	case source == "prompt":
		return a.ask(scheme)
	}
	return "", mesh.InvalidField(op, flag, "%s must be env:VARIABLE, file:PATH or prompt; values are not given on the command line, where others see them", oneLine(scheme))
}

// ask asks the person at the terminal, who is not shown what they type.
func (a *app) ask(scheme string) (string, error) {
	who := a.respondent()
	if who == nil {
		return "", mesh.InvalidField("mesh.agents", "--credential", "%s=prompt needs a terminal; use env:VARIABLE or file:PATH", oneLine(scheme))
	}
	return who.ask(oneLine(scheme)+": ", true)
}
