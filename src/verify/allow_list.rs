//! From which addresses a source may deliver.
//!
//! Problem: a provider that publishes its networks lets whoever learnt the URL and the secrets be
//! kept out all the same. An address is never a proof, so the list only takes away: what it lets
//! through still has every proof to bring.
//!
//! Design: no list is no limit. With one, an address that is not on it, or not known, is refused as
//! if there were no such path. The caller says the address, by the right-most hop that is not a
//! trusted proxy; so a list is as good as `server.trusted_proxies`, and the configuration's check
//! looks at both together.

use std::net::IpAddr;

use ipnet::IpNet;

/// The networks a source may deliver from.
#[derive(Debug, Clone, Default)]
pub struct AllowList(Vec<IpNet>);

impl AllowList {
    /// Lets `networks` in, or everybody when there are none.
    pub const fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether `client` may deliver. One that nobody knows may not, once there is a list.
    pub fn admits(&self, client: Option<IpAddr>) -> bool {
        let listed = |address: IpAddr| {
            let address = address.to_canonical();
            self.0.iter().any(|net| net.contains(&address))
        };
        self.0.is_empty() || client.is_some_and(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_lets_its_networks_in_and_nobody_else() {
        let nets = ["198.51.100.0/24", "2001:db8:1::/48", "203.0.113.9/32"];
        let list = AllowList::new(nets.map(|n| n.parse().unwrap()).into());
        for (address, admitted) in [
            ("198.51.100.0", true),
            ("198.51.100.255", true),
            ("::ffff:198.51.100.7", true),
            ("2001:db8:1:ffff::1", true),
            ("203.0.113.9", true),
            ("198.51.101.0", false),
            ("203.0.113.8", false),
            ("2001:db8:2::1", false),
            ("127.0.0.1", false),
        ] {
            let client = address.parse().unwrap();
            assert_eq!(list.admits(Some(client)), admitted, "{address}");
            assert!(AllowList::default().admits(Some(client)));
        }
        assert!(!list.admits(None));
        assert!(AllowList::default().admits(None));
    }
}
