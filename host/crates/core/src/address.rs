//! The part of the network that an IP address belongs to. Requests for strangers go to public addresses only, because what
//! answers on this machine or in its network may trust whoever reaches it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The part of the network that an address belongs to, also if it is an IPv4 address within an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    Public,
    /// A network of a house, a company or a provider.
    Private,
    /// The machines on one line, and the services of a cloud that tell a machine its keys.
    LinkLocal,
    Loopback,
    /// Multicast, documentation, tunnels, and what is not assigned.
    Reserved,
}

impl Zone {
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        match (a, b, c) {
            (127, ..) => Self::Loopback,
            (169, 254, _) => Self::LinkLocal,
            (10, ..) | (100, 64..=127, _) | (172, 16..=31, _) | (192, 168, _) => Self::Private,
            (0 | 224.., ..)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 51, 100)
            | (203, 0, 113)
            | (198, 18 | 19, _) => Self::Reserved,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            // An IPv4 address that is embedded in an IPv6 address.
            [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                let [a, b] = high.to_be_bytes();
                let [c, d] = low.to_be_bytes();
                Self::of_v4(Ipv4Addr::new(a, b, c, d))
            }
            // Tunnels, documentation and reserved ranges.
            [0x2001, 0..=0x1ff, ..]
            | [0x2001, 0xdb8, ..]
            | [0x2002, ..]
            | [0x3fff, 0..=0xfff, ..] => Self::Reserved,
            [first, ..] if first & 0xffc0 == 0xfe80 => Self::LinkLocal,
            [first, ..] if first & 0xfe00 == 0xfc00 => Self::Private,
            [first, ..] if first & 0xe000 == 0x2000 => Self::Public,
            _ => Self::Reserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-33, security line 29
    #[test]
    fn what_is_not_public_is_not_reachable_in_any_clothes() {
        for (address, zone) in [
            ("0.0.0.0", Zone::Reserved),
            ("10.1.2.3", Zone::Private),
            ("100.64.0.1", Zone::Private),
            ("127.0.0.1", Zone::Loopback),
            ("169.254.169.254", Zone::LinkLocal),
            ("172.31.0.1", Zone::Private),
            ("192.168.1.1", Zone::Private),
            ("198.18.0.1", Zone::Reserved),
            ("224.0.0.1", Zone::Reserved),
            ("255.255.255.255", Zone::Reserved),
            ("::", Zone::Reserved),
            ("::1", Zone::Loopback),
            ("::7f00:1", Zone::Reserved),
            ("::ffff:127.0.0.1", Zone::Loopback),
            ("::ffff:169.254.169.254", Zone::LinkLocal),
            ("64:ff9b::a00:1", Zone::Private),
            ("2001::1", Zone::Reserved),
            ("2001:db8::1", Zone::Reserved),
            ("2002:7f00:1::", Zone::Reserved),
            ("fc00::1", Zone::Private),
            ("fe80::1", Zone::LinkLocal),
            ("ff02::1", Zone::Reserved),
            ("1.1.1.1", Zone::Public),
            ("172.32.0.1", Zone::Public),
            ("2606:4700::1111", Zone::Public),
            ("::ffff:8.8.8.8", Zone::Public),
        ] {
            assert_eq!(Zone::of(address.parse().unwrap()), zone, "{address}");
        }
    }
}
