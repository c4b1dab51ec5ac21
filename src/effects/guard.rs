//! Which addresses an effect may connect to.
//!
//! Problem: an effect's URL is the operator's, but its name may resolve to anything, today or at the
//! next attempt: the machine's own admin listener, a neighbour in the private network, the cloud's
//! metadata service. A check of the URL alone proves nothing (a name can change its address between
//! check and connect), and an address has many spellings (`127.1`, `0x7f000001`,
//! `::ffff:127.0.0.1`, `64:ff9b::7f00:1`).
//!
//! Design: addresses are judged, never spellings. [`Resolver`] is the HTTP client's only resolver;
//! it judges *every* answer, refuses the name if one is refused, and gives the client exactly the
//! judged addresses to connect to, so there is no second look-up. A host that is an address already
//! never reaches a resolver: [`judge_host`] takes it first, after the URL parser has brought every
//! numeric spelling into one form. Redirects are not followed and proxies from the environment are
//! not used, so no other way to a connection exists.
//!
//! IPv6 is judged by what is allowed (`2000::/3` less its reserved parts), IPv4 by what is not.
//! Forms that carry an IPv4 address are judged by it (mapped, NAT64) or refused (6to4, Teredo,
//! compatible). `allow_private` admits loopback, RFC 1918 and unique local addresses. Nothing admits
//! link-local, metadata, shared, multicast or unspecified addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{Ipv4Net, Ipv6Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The public internet.
    Global,
    /// This machine or its private network: only with `allow_private`.
    Private(&'static str),
    /// Nowhere an effect has any business.
    Never(&'static str),
}

const fn v4(a: u8, b: u8, c: u8, d: u8, len: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), len)
}

const fn v6(head: [u16; 4], len: u8) -> Ipv6Net {
    let [a, b, c, d] = head;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), len)
}

const LOOPBACK: Reach = Reach::Private("a loopback address");
const PRIVATE: Reach = Reach::Private("a private address");
const METADATA: Reach = Reach::Never("a cloud metadata address");
const RESERVED: Reach = Reach::Never("a reserved address");
const EXAMPLE: Reach = Reach::Never("a documentation address");
const TUNNEL: Reach = Reach::Never("an address that tunnels to IPv4");

/// First match wins; what matches none is global.
const V4: &[(Ipv4Net, Reach)] = &[
    (v4(127, 0, 0, 0, 8), LOOPBACK),
    (v4(10, 0, 0, 0, 8), PRIVATE),
    (v4(172, 16, 0, 0, 12), PRIVATE),
    (v4(192, 168, 0, 0, 16), PRIVATE),
    (v4(0, 0, 0, 0, 8), Reach::Never("an unspecified address")),
    (v4(169, 254, 169, 254, 32), METADATA),
    (v4(169, 254, 0, 0, 16), Reach::Never("a link-local address")),
    // Metadata services outside of link-local: Alibaba, Azure (a public address), Oracle.
    (v4(100, 100, 100, 200, 32), METADATA),
    (v4(168, 63, 129, 16, 32), METADATA),
    (v4(192, 0, 0, 192, 32), METADATA),
    (
        v4(100, 64, 0, 0, 10),
        Reach::Never("a shared address (carrier NAT)"),
    ),
    (v4(192, 0, 0, 0, 24), RESERVED),
    (v4(192, 0, 2, 0, 24), EXAMPLE),
    (v4(192, 88, 99, 0, 24), TUNNEL),
    (
        v4(198, 18, 0, 0, 15),
        Reach::Never("a benchmarking address"),
    ),
    (v4(198, 51, 100, 0, 24), EXAMPLE),
    (v4(203, 0, 113, 0, 24), EXAMPLE),
    (v4(224, 0, 0, 0, 4), Reach::Never("a multicast address")),
    (v4(240, 0, 0, 0, 4), RESERVED),
];

/// First match wins; what matches none is refused.
const V6: &[(Ipv6Net, Reach)] = &[
    // AWS keeps its metadata and DNS services here, Google Cloud its metadata server there.
    (v6([0xfd00, 0x0ec2, 0, 0], 32), METADATA),
    (v6([0xfd20, 0x00ce, 0, 0], 64), METADATA),
    (v6([0xfc00, 0, 0, 0], 7), PRIVATE),
    (
        v6([0xfe80, 0, 0, 0], 10),
        Reach::Never("a link-local address"),
    ),
    (
        v6([0xff00, 0, 0, 0], 8),
        Reach::Never("a multicast address"),
    ),
    (v6([0x2001, 0x0db8, 0, 0], 32), EXAMPLE),
    (v6([0x3fff, 0, 0, 0], 20), EXAMPLE),
    // Protocol assignments, Teredo and ORCHID among them.
    (v6([0x2001, 0, 0, 0], 23), RESERVED),
    (v6([0x2002, 0, 0, 0], 16), TUNNEL),
    (v6([0x2000, 0, 0, 0], 3), Reach::Global),
];

/// The NAT64 prefix everybody knows; its last four bytes are the IPv4 address.
const NAT64: Ipv6Net = v6([0x0064, 0xff9b, 0, 0], 96);

/// Says where an address leads, whatever its form.
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let found = V4.iter().find(|(net, _)| net.contains(&address));
    found.map_or(Reach::Global, |(_, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    if address.is_loopback() {
        return LOOPBACK;
    }
    if address.is_unspecified() {
        return Reach::Never("an unspecified address");
    }
    if let Some(mapped) = address.to_ipv4_mapped() {
        return reach_v4(mapped);
    }
    if NAT64.contains(&address) {
        let [.., a, b, c, d] = address.octets();
        // A translator must not be asked for a private address, so that one has no honest use.
        return match reach_v4(Ipv4Addr::new(a, b, c, d)) {
            Reach::Global => Reach::Global,
            Reach::Private(_) | Reach::Never(_) => TUNNEL,
        };
    }
    let found = V6.iter().find(|(net, _)| net.contains(&address));
    found.map_or(RESERVED, |(_, reach)| *reach)
}

/// An address that was refused. The text names neither host nor address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    reach: Reach,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reach {
            Reach::Private(what) => write!(
                f,
                "the host is {what}; set allow_private = true on this effect if it is meant"
            ),
            Reach::Never(what) => write!(
                f,
                "the host is {what}, which effects never connect to (allow_private does not cover it)"
            ),
            Reach::Global => f.write_str("the host is a public address"),
        }
    }
}

/// Judges one address.
pub fn judge(address: IpAddr, allow_private: bool) -> Result<(), Refused> {
    match reach(address) {
        Reach::Global => Ok(()),
        Reach::Private(_) if allow_private => Ok(()),
        reach => Err(Refused { reach }),
    }
}

/// Judges a URL's host when it is an address; a name is left to the [`Resolver`].
pub fn judge_host(host: &url::Host<&str>, allow_private: bool) -> Result<(), Refused> {
    match *host {
        url::Host::Ipv4(address) => judge(address.into(), allow_private),
        url::Host::Ipv6(address) => judge(address.into(), allow_private),
        url::Host::Domain(_) => Ok(()),
    }
}

/// A name resolver that gives out only addresses an effect may connect to.
#[derive(Debug, Clone, Copy)]
pub struct Resolver {
    /// Whether loopback and private addresses are admitted.
    pub allow_private: bool,
}

impl Resolver {
    /// Judges all answers for one name: one refused answer refuses the name.
    pub fn admit(self, answers: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
        for answer in &answers {
            judge(answer.ip(), self.allow_private)?;
        }
        Ok(answers)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let this = *self;
        Box::pin(async move {
            let answers = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let admitted = this.admit(answers)?;
            let addresses: Addrs = Box::new(admitted.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Ipv4Addr, Ipv6Addr, Reach, Resolver, SocketAddr, judge, judge_host, reach};

    fn kind(address: &str) -> &'static str {
        match reach(address.parse().unwrap()) {
            Reach::Global => "global",
            Reach::Private(_) => "private",
            Reach::Never(_) => "never",
        }
    }

    const GLOBAL: &str = "
        1.0.0.0 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
        169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.88.98.1
        192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
        2606:4700:4700::1111 2a00:1450:4001::1 2001:200::1 3ffe::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8";
    const PRIVATE: &str = "
        127.0.0.1 127.255.255.255 10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255
        192.168.0.0 192.168.255.255 ::1 fc00::1 fdff:ffff::1
        ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:192.168.1.1";
    const NEVER: &str = "
        0.0.0.0 0.255.255.255 100.64.0.0 100.127.255.255 100.100.100.200 168.63.129.16
        169.254.0.0 169.254.169.254 169.254.255.255 192.0.0.0 192.0.0.192 192.0.2.1 192.88.99.1
        198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.0
        255.255.255.255 :: fe80::1 febf::1 fec0::1 ff02::1 fd00:ec2::254 fd20:ce::254
        ::ffff:169.254.169.254 ::ffff:0.0.0.0 ::127.0.0.1 ::8.8.8.8 64:ff9b::127.0.0.1
        64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::1 100::1 2001::1 2001:10::1
        2001:db8::1 2002:7f00:1:: 2002:808:808:: 3fff::1 5f00::1 4000::1";

    #[test]
    fn every_row_of_the_table_holds_at_its_edges() {
        for (expected, addresses, count) in [
            ("global", GLOBAL, 26),
            ("private", PRIVATE, 14),
            ("never", NEVER, 45),
        ] {
            let addresses: Vec<&str> = addresses.split_whitespace().collect();
            assert_eq!(addresses.len(), count);
            for address in addresses {
                assert_eq!(kind(address), expected, "{address}");
            }
        }
    }

    #[test]
    fn every_spelling_of_a_host_is_judged_as_the_address_it_is() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://0x7f.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://[0:0:0:0:0:ffff:10.1.2.3]/",
            "http://[64:ff9b::a00:1]/",
            "http://169.254.169.254/latest/",
            "http://0/",
            "http://%31%32%37.0.0.1/",
            "http://127.0.0.1./",
        ] {
            let url: url::Url = url.parse().unwrap();
            let host = url.host().unwrap();
            assert!(judge_host(&host, false).is_err(), "{url} is {host:?}");
        }
        assert!("http://[fe80::1%25eth0]/".parse::<url::Url>().is_err());
    }

    #[test]
    fn allow_private_admits_private_and_nothing_more() {
        for (address, admitted) in [
            ("127.0.0.1", true),
            ("10.1.1.1", true),
            ("fd12::1", true),
            ("169.254.169.254", false),
            ("fe80::1", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("fd00:ec2::254", false),
            ("64:ff9b::10.0.0.1", false),
        ] {
            assert_eq!(
                judge(address.parse().unwrap(), true).is_ok(),
                admitted,
                "{address}"
            );
        }
    }

    #[test]
    fn one_refused_answer_refuses_the_name() {
        let guard = Resolver {
            allow_private: false,
        };
        let good: SocketAddr = "8.8.8.8:0".parse().unwrap();
        let bad: SocketAddr = "10.0.0.1:0".parse().unwrap();
        assert_eq!(guard.admit(vec![good]).unwrap(), [good]);
        let why = guard.admit(vec![good, bad]).unwrap_err().to_string();
        assert!(
            why.contains("allow_private") && !why.contains("10.0.0.1"),
            "{why}"
        );
    }

    proptest::proptest! {
        #[test]
        fn an_ipv4_address_is_judged_alike_in_every_form_that_carries_it(bits: u32) {
            let plain = Ipv4Addr::from(bits);
            let mapped = reach(plain.to_ipv6_mapped().into());
            proptest::prop_assert_eq!(mapped, reach(plain.into()));
            let [a, b, c, d] = plain.octets();
            let head = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];
            let mut bytes = [0; 16];
            bytes[..12].copy_from_slice(&head);
            bytes[12..].copy_from_slice(&[a, b, c, d]);
            let translated = reach(Ipv6Addr::from(bytes).into());
            proptest::prop_assert_eq!(translated == Reach::Global, mapped == Reach::Global);
        }
    }
}
