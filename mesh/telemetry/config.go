package telemetry

import (
	"math"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"agentmesh/mesh"
)

// Config says what is told, and whom. The zero value tells nobody anything.
type Config struct {
	// OTLP is where spans and metrics go by OTLP over gRPC: host:port, or a URL whose scheme
	// says whether the connection is encrypted. "" sends none.
	OTLP string `yaml:"otlp"`
	// Headers go along, as keys of the receiver's. They are secret.
	Headers map[string]string `yaml:"headers"`
	// Insecure sends to a host:port of another machine without encryption.
	Insecure bool `yaml:"insecure"`
	// Sample is the part of the traces that is told of, from 0 to 1; default all. Of a call
	// that comes with a trace the caller has decided.
	Sample *float64 `yaml:"sample"`
	// Content has messages, arguments and results told, too.
	Content bool `yaml:"content"`
	// Metrics has them served over HTTP as well, at /metrics.
	Metrics bool `yaml:"metrics"`
}

// On reports whether anything is told.
func (c *Config) On() bool { return c.sends() || c.Metrics }

// sends reports whether spans and metrics go anywhere.
func (c *Config) sends() bool { return c.OTLP != "" }

// FromEnv adds what the variables of OpenTelemetry say that is not set, but for the headers
// and the certificates, which are read where they are used. It refuses what would have no
// effect here.
func (c *Config) FromEnv(getenv func(string) string) error {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		*c = Config{}
		return nil
	}
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	if at := getenv(endpoint); c.OTLP == "" && at != "" {
		c.OTLP, c.Insecure = at, c.Insecure || strings.EqualFold(getenv("OTEL_EXPORTER_OTLP_INSECURE"), "true")
		if _, _, err := c.target(); err != nil {
			return mesh.InvalidField("telemetry.Config", endpoint, "must be host:port or a URL without a path, such as http://127.0.0.1:4317")
		}
	}
	if p := getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); c.sends() && p != "" && p != "grpc" {
		return mesh.InvalidField("telemetry.Config", "OTEL_EXPORTER_OTLP_PROTOCOL", "must be grpc, and is %q; name the receiver's port for OTLP over gRPC, which is usually 4317", mesh.Clip(p, 32))
	}
	if c.Sample != nil || !c.sends() {
		return nil
	}
	part := 1.0
	switch s := strings.TrimPrefix(getenv("OTEL_TRACES_SAMPLER"), "parentbased_"); s {
	case "", "always_on":
	case "always_off":
		part = 0
	case "traceidratio":
		if arg := getenv("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
			n, err := strconv.ParseFloat(arg, 64)
			if err != nil || !ratio(n) {
				return mesh.InvalidField("telemetry.Config", "OTEL_TRACES_SAMPLER_ARG", "must be a number from 0 to 1, and is %q", mesh.Clip(arg, 32))
			}
			part = n
		}
	default:
		return mesh.InvalidField("telemetry.Config", "OTEL_TRACES_SAMPLER", "must be always_on, always_off or traceidratio, as it is or after parentbased_, and is %q", mesh.Clip(s, 32))
	}
	c.Sample = &part
	return nil
}

// Validate refuses what cannot be meant, by the names in the configuration file.
func (c *Config) Validate() error {
	const op = "telemetry.Config"
	if c.OTLP != "" {
		if _, _, err := c.target(); err != nil {
			return err
		}
	}
	switch {
	case c.Sample != nil && !ratio(*c.Sample):
		return mesh.InvalidField(op, "telemetry.sample", "must be a number from 0 to 1, and is %v", *c.Sample)
	case c.OTLP == "" && (len(c.Headers) > 0 || c.Insecure):
		return mesh.InvalidField(op, "telemetry.otlp", "is missing; name the receiver as host:port, or leave telemetry.headers and telemetry.insecure out")
	}
	for name, value := range c.Headers {
		if name == "" || name != strings.ToLower(name) || strings.ContainsAny(name+value, "\r\n") || strings.ContainsAny(name, " :") || strings.HasPrefix(name, "grpc-") {
			return mesh.InvalidField(op, "telemetry.headers", "must have lower-case names without spaces, and has %q", mesh.Clip(name, 48))
		}
	}
	return nil
}

func ratio(n float64) bool { return !math.IsNaN(n) && n >= 0 && n <= 1 }

// target is the host:port of the receiver, and whether it is called in plaintext.
func (c *Config) target() (address string, plain bool, err error) {
	bad := mesh.InvalidField("telemetry.Config", "telemetry.otlp", "must be host:port such as 127.0.0.1:4317, or a URL such as https://otel.example.com:4317")
	address = c.OTLP
	if scheme, _, isURL := strings.Cut(c.OTLP, "://"); isURL {
		u, err := url.Parse(c.OTLP)
		if err != nil || scheme != "http" && scheme != "https" || u.User != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return "", false, bad
		}
		if address = u.Host; u.Port() == "" {
			address = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[scheme])
		}
		return address, scheme == "http", nil
	}
	host, port, err := net.SplitHostPort(address)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
		return "", false, bad
	}
	ip, err := netip.ParseAddr(host)
	return address, c.Insecure || host == "localhost" || err == nil && ip.IsLoopback(), nil
}
