package node_test

import (
	"net/http"
	"testing"

	legacy "github.com/a2aproject/a2a-go/a2a"
	legacyclient "github.com/a2aproject/a2a-go/a2aclient"
	legacycard "github.com/a2aproject/a2a-go/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"agentmesh/mesh/security/oidc/oidctest"
)

// finding P1: the cards of a mesh that asks for credentials say which, so that the
// official SDKs that read requirements send them by themselves, and the others read the
// cards all the same.
func TestInteropTheOfficialGoSDKsSendCredentials(t *testing.T) {
	p := oidctest.Start(t)
	m := start(t, providers(t, p), map[string]run{"main": echo})
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	base, token := "http://"+m.web(), p.Token("alice", nil)

	t.Run("v0.3", func(t *testing.T) {
		card, err := (&legacycard.Resolver{Client: web}).Resolve(plain(t), base)
		if err != nil {
			t.Fatal(err)
		}
		for _, known := range []bool{true, false} {
			store := legacyclient.NewInMemoryCredentialsStore()
			if known {
				store.Set("me", "bearer", legacyclient.AuthCredential(token))
			}
			client, err := legacyclient.NewFromCard(plain(t), card, legacyclient.WithJSONRPCTransport(web),
				legacyclient.WithInterceptors(&legacyclient.AuthInterceptor{Service: store}))
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.SendMessage(legacyclient.WithSessionID(plain(t), "me"), &legacy.MessageSendParams{Message: legacy.NewMessage(legacy.MessageRoleUser, legacy.TextPart{Text: "hello"})})
			if (err == nil) != known {
				t.Errorf("with a credential %v: %v", known, err)
			}
		}
	})
	for name, parser := range map[string]agentcard.Parser{"v1.0": nil, "v1.0 that knows v0.3": a2av0.NewAgentCardParser()} {
		t.Run(name, func(t *testing.T) {
			card, err := (&agentcard.Resolver{Client: web, CardParser: parser}).Resolve(plain(t), base)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := card.SecuritySchemes["bearer"].(a2a.HTTPAuthSecurityScheme); !ok || card.SecuritySchemes["oidc"] == nil {
				t.Errorf("the schemes are %v", card.SecuritySchemes)
			}
			store := a2aclient.NewInMemoryCredentialsStore()
			store.Set("me", "bearer", a2aclient.AuthCredential(token))
			opts := []a2aclient.FactoryOption{a2aclient.WithJSONRPCTransport(web), a2aclient.WithCallInterceptors(&a2aclient.AuthInterceptor{Service: store})}
			client, err := a2aclient.NewFromCard(plain(t), card, opts...)
			if err != nil {
				t.Fatal(err)
			}
			ctx := a2aclient.AttachSessionID(plain(t), "me")
			if parser == nil { // it reads no requirements, and is told
				ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"authorization": {"Bearer " + token}})
			}
			if _, err := client.SendMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello"))}); err != nil {
				t.Error(err)
			}
			if _, err := client.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{}); err != nil {
				t.Errorf("the extended card: %v", err)
			}
		})
	}
}
