//! Who is on the other side: the peer, or the client a trusted proxy speaks for.
//!
//! Problem: limits per address need the client's address. Behind a proxy the peer is the proxy, and
//! a forwarding header is whatever its sender wrote.
//!
//! Design: forwarding headers count only from configured networks, and are read from the right, the
//! end a trusted proxy appended to; the first address that is not a trusted proxy is the client.
//! When no proxy is configured and the peer is private, it is most likely an unnamed proxy: then
//! everybody shares its address and limits per address would punish all for one, so they are off.

use std::net::{IpAddr, Ipv6Addr};

use http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PROTO: &str = "x-forwarded-proto";
/// Most entries of the header looked at.
const MAX_HOPS: usize = 32;

/// Which peers are proxies.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    trusted: Vec<IpNet>,
}

/// Where a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The client's address, as well as it can be known. Never proof of anything.
    pub address: IpAddr,
    /// Whether limits per address make sense for it.
    pub limited: bool,
}

/// Whether the client spoke https, as a request extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Https(pub bool);

impl Peers {
    /// Forwarding headers count from `trusted_proxies` alone.
    pub const fn new(trusted_proxies: Vec<IpNet>) -> Self {
        Self {
            trusted: trusted_proxies,
        }
    }

    /// Whether connections from `peer` are to be counted per address.
    pub fn limits_connections_of(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        !self.is_trusted(peer) && !self.is_unnamed_proxy(peer)
    }

    /// The client behind `peer`.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        let peer = peer.to_canonical();
        if !self.is_trusted(peer) {
            return Client {
                address: peer,
                limited: !self.is_unnamed_proxy(peer),
            };
        }
        let mut address = peer;
        let values: Vec<&[u8]> = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .map(http::HeaderValue::as_bytes)
            .collect();
        let hops = values
            .iter()
            .rev()
            .flat_map(|value| value.rsplit(|b| *b == b','));
        for hop in hops.take(MAX_HOPS) {
            // What cannot be read was not written by a proxy we trust: stop at the last sure hop.
            let Some(hop) = parse_hop(hop) else { break };
            address = hop;
            if !self.is_trusted(hop) {
                break;
            }
        }
        Client {
            address,
            // A proxy that forwards nothing hides everybody behind itself.
            limited: !self.is_trusted(address),
        }
    }

    /// Whether the client behind `peer` spoke https, as a trusted proxy says: its last word counts.
    pub fn https(&self, peer: IpAddr, headers: &HeaderMap) -> Https {
        let said = headers.get_all(FORWARDED_PROTO).iter().next_back();
        let last = said.and_then(|value| value.as_bytes().rsplit(|b| *b == b',').next());
        let https = last.is_some_and(|word| word.trim_ascii().eq_ignore_ascii_case(b"https"));
        Https(https && self.is_trusted(peer.to_canonical()))
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|net| net.contains(&address))
    }

    fn is_unnamed_proxy(&self, peer: IpAddr) -> bool {
        self.trusted.is_empty() && is_private(peer)
    }
}

/// The key under which an address is counted: IPv6 by its /64, which one customer owns whole.
pub fn counting_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
    }
}

fn parse_hop(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    // Some proxies append the port.
    let with_port: std::net::SocketAddr = text.parse().ok()?;
    Some(with_port.ip().to_canonical())
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || {
                // 100.64.0.0/10, carrier-grade NAT and overlay networks.
                let [a, b, ..] = v4.octets();
                a == 100 && (64..128).contains(&b)
            }
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn client(trusted: &[&str], peer: &str, forwarded: &[&str]) -> (String, bool) {
        let peers = Peers::new(trusted.iter().map(|net| net.parse().unwrap()).collect());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().unwrap());
        }
        let found = peers.client(ip(peer), &headers);
        (found.address.to_string(), found.limited)
    }

    #[test]
    fn a_forwarding_header_counts_only_from_a_trusted_proxy() {
        let spoof = ["198.51.100.1"];
        for (trusted, peer, expected) in [
            (&[][..], "203.0.113.9", ("203.0.113.9", true)),
            (&["10.0.0.0/8"], "203.0.113.9", ("203.0.113.9", true)),
            (&["10.0.0.0/8"], "10.1.2.3", ("198.51.100.1", true)),
            (&["10.0.0.0/8"], "::ffff:10.1.2.3", ("198.51.100.1", true)),
            // Private, but not one of the named proxies: an ordinary client.
            (&["10.0.0.0/8"], "192.168.0.7", ("192.168.0.7", true)),
        ] {
            let (address, limited) = client(trusted, peer, &spoof);
            assert_eq!((address.as_str(), limited), expected, "{peer}");
        }
    }

    #[test]
    fn the_header_is_read_from_the_right() {
        let trusted = ["10.0.0.0/8", "fd00::/8"];
        for (forwarded, expected) in [
            (&["1.1.1.1, 198.51.100.1"][..], ("198.51.100.1", true)),
            (
                &["1.1.1.1, 198.51.100.1, 10.0.0.2 ,10.0.0.3"],
                ("198.51.100.1", true),
            ),
            (
                &["1.1.1.1", "198.51.100.1", "10.0.0.2"],
                ("198.51.100.1", true),
            ),
            (&["198.51.100.1:4711"], ("198.51.100.1", true)),
            (&["2001:db8::1, fd00::5"], ("2001:db8::1", true)),
            (&["[2001:db8::1]:80"], ("2001:db8::1", true)),
            // Unreadable or hidden: the last sure hop, which is a proxy, so nothing is limited.
            (&["198.51.100.1, unknown, 10.0.0.2"], ("10.0.0.2", false)),
            (&["198.51.100.1,"], ("10.9.9.9", false)),
            (&[], ("10.9.9.9", false)),
            (&["10.0.0.4, 10.0.0.5"], ("10.0.0.4", false)),
        ] {
            let (address, limited) = client(&trusted, "10.9.9.9", forwarded);
            assert_eq!((address.as_str(), limited), expected, "{forwarded:?}");
        }
    }

    #[test]
    fn private_peers_are_not_limited_while_no_proxy_is_named() {
        let (open, named) = (
            Peers::default(),
            Peers::new(vec!["172.16.0.0/12".parse().unwrap()]),
        );
        for private in ["127.0.0.1", "10.0.0.1", "172.18.0.1", "100.64.0.1", "::1"] {
            assert!(!open.limits_connections_of(ip(private)), "{private}");
            assert!(!open.client(ip(private), &HeaderMap::new()).limited);
        }
        assert!(!named.limits_connections_of(ip("172.18.0.1")));
        assert!(named.limits_connections_of(ip("10.0.0.1")));
        assert!(open.limits_connections_of(ip("203.0.113.9")));
        assert!(open.limits_connections_of(ip("100.128.0.1")));
    }

    #[test]
    fn one_ipv6_customer_is_one_address() {
        assert_eq!(
            counting_key(ip("2001:db8:1:2:3:4:5:6")),
            ip("2001:db8:1:2::")
        );
        assert_eq!(counting_key(ip("::ffff:192.0.2.1")), ip("192.0.2.1"));
    }
}
