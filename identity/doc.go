// Package identity says who sent a request and what it asks for: the client's
// address through trusted proxies, its user, API key and tier, and the method,
// host and path in one canonical form. A [Plan] turns that into the
// descriptors of a [weir.Request], a [Routes] finds the plan for a path.
//
// Who is believed:
//
//   - The peer of the connection, always. Behind a balancer of TCP that is who the
//     listener names, by the PROXY protocol of a listed peer for one.
//   - A header that names an address, a user or a tier, only if the peer is in
//     [ProxyOptions].Trusted. That list is empty unless it is set.
//   - What a stranger may choose (cookies, headers, query, unverified claims)
//     is a key like any other, but never stands for a user, and never removes a
//     limit.
//
// A limit on an address is one on a prefix: a customer has a whole /64 of IPv6
// at hand. Addresses of 6to4 are never told apart by more than their /48, which
// is one IPv4 address's; those of NAT64 are read as the IPv4 address they embed,
// as else a translator's clients would all share one /64.
package identity
