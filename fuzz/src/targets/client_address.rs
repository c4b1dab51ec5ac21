//! The client's address: the peer, or a hop that a trusted proxy wrote; never one from nowhere.
//!
//! The first line is the peer and, behind a space, the trusted networks by comma; then come the
//! headers, a line each.

use std::net::IpAddr;

use hookledger::http::peers::{Client, Peers, counting_key};
use http::HeaderMap;
use ipnet::IpNet;

use super::door;

pub(super) fn check(input: &[u8]) {
    let (line, rest) = super::first_line(input);
    let line = String::from_utf8_lossy(line);
    let (peer, networks) = line.split_once(' ').unwrap_or((&line, ""));
    let Ok(peer) = peer.parse::<IpAddr>() else {
        return;
    };
    let trusted: Vec<IpNet> = networks.split(',').filter_map(|n| n.parse().ok()).collect();
    let (headers, _) = door::request(rest);
    let peers = Peers::new(trusted.clone());
    let found = peers.client(peer, &headers);
    assert_eq!(
        found,
        second_reading(peer.to_canonical(), &trusted, &headers)
    );
    assert!(
        found.address.to_canonical() == found.address,
        "not canonical"
    );
    let key = counting_key(found.address);
    assert_eq!(counting_key(key), key);
    if trusted.is_empty() {
        assert_eq!(peers.limits_connections_of(peer), found.limited);
    }
}

/// All hops in one list, newest first, walked for as long as the last one is believed.
fn second_reading(peer: IpAddr, trusted: &[IpNet], headers: &HeaderMap) -> Client {
    let believed = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    if !believed(&peer) {
        return Client {
            address: peer,
            limited: !trusted.is_empty() || !is_private(peer),
        };
    }
    let lines: Vec<&[u8]> = headers
        .get_all("x-forwarded-for")
        .iter()
        .map(http::HeaderValue::as_bytes)
        .collect();
    let written = lines.join(&b","[..]);
    let mut hops: Vec<Option<IpAddr>> = written.split(|b| *b == b',').map(hop).collect();
    hops.reverse();
    hops.truncate(32);
    let sure = hops.iter().map_while(|hop| *hop);
    let mut walk = std::iter::once(peer).chain(sure).peekable();
    let mut address = peer;
    while let Some(next) = walk.next() {
        address = next;
        if !believed(&next) || walk.peek().is_none() {
            break;
        }
    }
    Client {
        address,
        limited: !believed(&address),
    }
}

fn hop(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let alone = text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|a| a.ip());
    alone.or_else(with_port).map(|a| a.to_canonical())
}

/// The networks that no provider delivers from.
fn is_private(address: IpAddr) -> bool {
    [
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "100.64.0.0/10",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    ]
    .iter()
    .filter_map(|net| net.parse::<IpNet>().ok())
    .any(|net| net.contains(&address))
}
