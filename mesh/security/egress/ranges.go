package egress

import "net/netip"

// A network is a range that is not for the public, and what people call it.
type network struct {
	prefix netip.Prefix
	name   string
}

// closed are the networks that are never sent to unless they are allowed: the
// special-purpose registries of IANA (RFC 6890), and addresses that clouds
// answer on for the machines inside. Of IPv6, everything outside of global
// unicast, 2000::/3, is closed as well.
var closed = []network{
	{netip.MustParsePrefix("169.254.169.254/32"), "a metadata service"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service"},
	{netip.MustParsePrefix("100.100.100.200/32"), "a metadata service"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a metadata service"},
	{netip.MustParsePrefix("0.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("127.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("::/127"), "this machine"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private network"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private network"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private network"},
	{netip.MustParsePrefix("fc00::/7"), "a private network"},
	{netip.MustParsePrefix("fec0::/10"), "a private network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a provider's shared network"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("192.0.0.0/24"), reserved},
	{netip.MustParsePrefix("192.0.2.0/24"), reserved},
	{netip.MustParsePrefix("192.88.99.0/24"), reserved},
	{netip.MustParsePrefix("198.18.0.0/15"), reserved},
	{netip.MustParsePrefix("198.51.100.0/24"), reserved},
	{netip.MustParsePrefix("203.0.113.0/24"), reserved},
	{netip.MustParsePrefix("240.0.0.0/4"), reserved},
	{netip.MustParsePrefix("2001::/23"), reserved}, // Teredo among others, which tunnels to IPv4
	{netip.MustParsePrefix("2001:db8::/32"), reserved},
	{netip.MustParsePrefix("2002::/16"), reserved}, // 6to4, likewise
	{netip.MustParsePrefix("3fff::/20"), reserved},
}

const reserved = "a reserved address"

var (
	unicast6 = netip.MustParsePrefix("2000::/3")
	// nat64 addresses stand for the IPv4 address in their last four bytes
	// (RFC 6052), and are refused or not as that one is.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// refuse says what the address is, if it may not be reached, or "".
func (g *Guard) refuse(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	for _, n := range g.networks {
		if n.Contains(addr) {
			return ""
		}
	}
	if nat64.Contains(addr) {
		b := addr.As16()
		return g.refuse(netip.AddrFrom4([4]byte(b[12:])))
	}
	for _, n := range closed {
		if n.prefix.Contains(addr) {
			return n.name
		}
	}
	if addr.Is6() && !unicast6.Contains(addr) {
		return reserved
	}
	return ""
}
