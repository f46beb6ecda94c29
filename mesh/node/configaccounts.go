package node

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
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
	// CalDAV is where events are; without a URL, in a folder of Data.
	CalDAV CalDAV `yaml:"caldav"`
}

// CalDAV is a calendar on a server.
type CalDAV struct {
	// URL is that of the server, of the user's calendars or of the calendar.
	URL      string `yaml:"url"`
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	// Calendar is its name, where there are several.
	Calendar string `yaml:"calendar"`
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
	return map[string]*string{"imap.password": &a.IMAP.Password, "smtp.password": &a.SMTP.Password, "caldav.password": &a.CalDAV.Password}
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
	mail := a.IMAP != (IMAP{TLS: a.IMAP.TLS}) || a.SMTP != (SMTP{TLS: a.SMTP.TLS})
	if !mail && a.CalDAV == (CalDAV{}) {
		return invalid(at, "has none of imap, smtp and caldav; give one of them")
	}
	if err := first(func() error { return a.IMAP.check(at + ".imap") }, func() error { return a.SMTP.check(at + ".smtp") },
		func() error { return a.CalDAV.check(at + ".caldav") }); err != nil {
		return err
	}
	if mail {
		if err := c.owned(a, at, "mail"); err != nil {
			return err
		}
	}
	if a.CalDAV != (CalDAV{}) {
		return c.owned(a, at, "calendar")
	}
	return nil
}

// owned checks that the account is of whom the domain keeps something for: otherwise nobody would
// ever see it.
func (c *Config) owned(a *Account, at, domain string) error {
	switch shared := c.Shares(domain); {
	case shared && a.User != "":
		return invalid(at+".user", "is %q, but all users of a tenant share the data of %s here; leave the user out, or take %s out of shared_data", a.User, domain, domain)
	case !shared && a.User == "":
		return invalid(at+".user", "is missing, and each user has data of %s of their own here; name whose the account is, or add %s to shared_data", domain, domain)
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

func (d CalDAV) check(at string) error {
	if d == (CalDAV{}) {
		return nil
	}
	u, err := url.Parse(d.URL)
	switch {
	case d.URL == "" || err != nil || !webURL(d.URL):
		return invalid(at+".url", "must be a URL such as https://dav.example.com/")
	case u.User != nil:
		return invalid(at+".url", "must not hold a password; give user and password")
	case u.Scheme == "http" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback():
		return invalid(at+".url", "must begin with https, for the password would be sent for all to read")
	case d.User == "":
		return invalid(at+".user", "is missing; name who logs in there, often the address")
	case d.Password == "":
		return invalid(at+".password", "is missing; give ${NAME} to take it from the environment, or ${file:PATH}")
	}
	return nil
}
