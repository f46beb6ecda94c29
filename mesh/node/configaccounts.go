package node

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"agentmesh/mesh"
)

// An Account is where mail and events of a user are, or of all users of a tenant.
type Account struct {
	// Tenant is whose it is; default "default".
	Tenant string `yaml:"tenant"`
	// User is the user of the tenant whose it is. Without one it is of all users, where
	// SharedData has them share mail or calendars.
	User string `yaml:"user"`
	// IMAP is where mail is read and filed; without an address, in folders of Data.
	IMAP IMAP `yaml:"imap"`
	// SMTP sends the mail of the account; without an address, as that of all does.
	SMTP SMTP `yaml:"smtp"`
}

// IMAP is an account on a mail server.
type IMAP struct {
	Address  string `yaml:"address"` // host:port
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	// TLS is tls (default), starttls or none.
	TLS string `yaml:"tls"`
}

// Owner returns whose the account is.
func (a *Account) Owner() mesh.Owner {
	return mesh.Owner{Tenant: mesh.TenantID(a.Tenant), User: a.User}
}

// secrets are the fields that have some, by their paths.
func (a *Account) secrets() map[string]*string {
	return map[string]*string{"imap.password": &a.IMAP.Password, "smtp.password": &a.SMTP.Password}
}

// checkAccounts sets defaults of accounts, and checks them.
func (c *Config) checkAccounts() error {
	owners := map[mesh.Owner]bool{}
	for i := range c.Accounts {
		a, at := &c.Accounts[i], fmt.Sprintf("accounts[%d]", i)
		a.Tenant = cmp.Or(a.Tenant, string(mesh.DefaultTenant))
		a.IMAP.TLS, a.SMTP.TLS = cmp.Or(a.IMAP.TLS, "tls"), cmp.Or(a.SMTP.TLS, "starttls")
		if err := mesh.TenantID(a.Tenant).Validate(); err != nil {
			return invalid(at+".tenant", "must be the name of a tenant, and is %q", a.Tenant)
		}
		if owners[a.Owner()] {
			return invalid(at+".user", "has an account already in this list; give all of it in one entry")
		}
		owners[a.Owner()] = true
		if err := a.check(c, at); err != nil {
			return err
		}
	}
	return nil
}

func (a *Account) check(c *Config, at string) error {
	if a.IMAP == (IMAP{TLS: a.IMAP.TLS}) && a.SMTP.Address == "" {
		return invalid(at, "has neither imap nor smtp; give one of them")
	}
	if err := first(func() error { return a.IMAP.check(at + ".imap") }, func() error { return a.SMTP.check(at + ".smtp") }); err != nil {
		return err
	}
	return c.owned(a, at, "mail")
}

// owned checks that the account is of whom the domain keeps something for: otherwise nobody would
// ever see it.
func (c *Config) owned(a *Account, at, domain string) error {
	switch shared := c.Shares(domain); {
	case shared && a.User != "":
		return invalid(at+".user", "is %q, but all users of a tenant share %s here; leave the user out, or take %s out of shared_data", a.User, domain, domain)
	case !shared && a.User == "":
		return invalid(at+".user", "is missing, and each user has %s of their own here; name whose the account is, or add %s to shared_data", domain, domain)
	}
	return nil
}

func (i IMAP) check(at string) error {
	switch host, port, err := net.SplitHostPort(i.Address); {
	case i.Address == "" && i.User == "" && i.Password == "":
		return nil
	case err != nil || host == "" || port == "":
		return invalid(at+".address", "must be host:port such as imap.example.com:993")
	case i.User == "":
		return invalid(at+".user", "is missing; name who logs in there, often the address")
	case i.Password == "":
		return invalid(at+".password", "is missing; give ${NAME} to take it from the environment, or ${file:PATH}")
	case !slices.Contains([]string{"tls", "starttls", "none"}, i.TLS):
		return invalid(at+".tls", "must be tls, starttls or none, and is %q", i.TLS)
	case i.TLS == "none" && host != "localhost" && !net.ParseIP(host).IsLoopback():
		return invalid(at+".tls", "must be tls or starttls, for the password would be sent for all to read")
	}
	return nil
}
