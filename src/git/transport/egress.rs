//! The hosts that repositories may be on.
//!
//! The author of a ConfigRepo chooses a host, and the operator connects to it from inside the cluster. Each
//! name is resolved once, and the connection uses the checked address, so that the name cannot resolve to
//! another address in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::git::Error;

/// The hosts that connections may be opened to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Egress {
    /// All hosts.
    #[default]
    Anywhere,
    /// Any host with a public address. If hosts are named, only those hosts, which may have private addresses.
    Hosts {
        /// Names, such as `git.example.com`, and patterns, such as `*.example.com` for its subdomains.
        names: Vec<String>,
        /// True if connections to this machine are allowed.
        loopback: bool,
    },
}

impl Egress {
    /// Checks a host name before it is resolved.
    ///
    /// # Errors
    /// Returns [`Error::Url`], which names the flag that allows the host.
    pub fn check_host(&self, host: &str) -> Result<(), Error> {
        match self {
            Self::Hosts { names, .. } if !names.is_empty() && !is_named(names, host) => {
                Err(refuse(&format!("{host} is not in the operator's flag --git-hosts")))
            }
            // A proxy resolves names itself, so only literal addresses can be checked here.
            Self::Hosts { .. } => host.parse().map_or(Ok(()), |address| self.check_address(host, address)),
            Self::Anywhere => Ok(()),
        }
    }

    /// Returns true if a redirect may lead to a host that the configuration does not name.
    pub(in crate::git) fn names(&self, host: &str) -> bool {
        match self {
            Self::Hosts { names, .. } => is_named(names, host),
            Self::Anywhere => true,
        }
    }

    /// Checks an address of a host.
    ///
    /// # Errors
    /// Returns [`Error::Url`], which names the class of the address.
    pub(super) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), Error> {
        let Self::Hosts { names, loopback } = self else { return Ok(()) };
        match address_class(address) {
            AddressClass::Public => Ok(()),
            AddressClass::Private if is_named(names, host) => Ok(()),
            AddressClass::Machine if *loopback => Ok(()),
            AddressClass::Private => {
                let is = match host.parse() == Ok(address) {
                    true => format!("{host} is a private address"),
                    false => format!("{host} has the private address {address}"),
                };
                Err(refuse(&format!("{is}; allow it with the operator's flag --git-hosts={host}")))
            }
            AddressClass::Machine | AddressClass::Special => {
                Err(refuse(&format!("{host} has the address {address}, which no git server can have")))
            }
        }
    }
}

fn refuse(reason: &str) -> Error {
    Error::Url(format!("invalid repository URL: {}", object::text::plain(reason, 400)))
}

fn is_named(names: &[String], host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    names.iter().map(|name| name.to_ascii_lowercase()).any(|name| match name.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => name == host,
    })
}

/// The class of an address (IANA's registries of special-purpose addresses).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressClass {
    Public,
    /// A network of an organization or a cluster.
    Private,
    /// This machine.
    Machine,
    /// Link-local addresses, such as cloud metadata services, multicast groups, and reserved addresses.
    Special,
}

fn address_class(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, _] = address.octets();
    if address.is_loopback() {
        return AddressClass::Machine;
    }
    // 100.64.0.0/10 is used by carriers and some clusters.
    if address.is_private() || a == 100 && b & 0xc0 == 64 {
        return AddressClass::Private;
    }
    let is_reserved = a == 0 || a >= 224 || (a, b, c) == (192, 0, 0);
    if is_reserved || address.is_link_local() { AddressClass::Special } else { AddressClass::Public }
}

fn reach_v6(address: Ipv6Addr) -> AddressClass {
    let [first, second, ..] = address.segments();
    if let Some(inner) = embedded(address) {
        return reach_v4(inner);
    }
    if address.is_loopback() {
        return AddressClass::Machine;
    }
    if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 {
        return AddressClass::Private;
    }
    // Global unicast is 2000::/3, except Teredo (2001::/32), whose addresses embed an IPv4 address.
    if first & 0xe000 == 0x2000 && (first, second) != (0x2001, 0) {
        AddressClass::Public
    } else {
        AddressClass::Special
    }
}

/// Returns the IPv4 address embedded in an IPv6 address: mapped, translated (64:ff9b::/96) or 6to4 (2002::/16).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => Some(of(g, h)),
        (0x2002, high, low, ..) => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_distinguished_from_public_ones() {
        let cases = [
            (AddressClass::Machine, "127.0.0.1 127.9.9.9 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::"),
            (
                AddressClass::Private,
                "10.0.0.1 172.16.5.5 172.31.0.1 192.168.1.1 100.64.0.1 100.127.0.1 fd00::1 fec0::1 ::ffff:10.0.0.1",
            ),
            (
                AddressClass::Special,
                "0.0.0.0 169.254.169.254 224.0.0.1 240.0.0.1 255.255.255.255 192.0.0.1 :: fe80::1 ff02::1 ::ffff:169.254.169.254 2001::1",
            ),
            (
                AddressClass::Public,
                "1.1.1.1 172.32.0.1 100.128.0.1 192.0.2.1 2606:4700::1111 2001:4860::8888",
            ),
        ];
        for (expected, addresses) in cases {
            for address in addresses.split(' ') {
                assert_eq!(address_class(address.parse().unwrap()), expected, "{address}");
            }
        }
    }

    #[test]
    fn named_hosts_alone_may_be_private_and_no_host_is_a_link() {
        let none = Egress::Hosts { names: vec![], loopback: false };
        let some = Egress::Hosts { names: vec!["git.corp".into(), "*.example.com".into()], loopback: true };
        let allows = |egress: &Egress, host: &str, address: &str| {
            egress.check_host(host).is_ok() && egress.check_address(host, address.parse().unwrap()).is_ok()
        };
        assert!(allows(&none, "anything.org", "1.1.1.1"));
        assert!(!allows(&none, "git.corp", "10.0.0.1"));
        assert!(!allows(&none, "localhost", "127.0.0.1"));
        assert!(!allows(&none, "169.254.169.254", "169.254.169.254"));
        assert!(allows(&some, "Git.Corp", "10.0.0.1") && allows(&some, "a.b.example.com", "10.0.0.1"));
        assert!(!allows(&some, "example.com", "1.1.1.1") && !allows(&some, "xexample.com", "1.1.1.1"));
        assert!(!allows(&some, "git.corp", "169.254.169.254"), "a named host may be no link either");
        assert!(allows(&some, "git.corp", "127.0.0.1"));
        for (host, is) in
            [("git.corp", "has the private address 10.0.0.1"), ("10.0.0.1", "is a private address")]
        {
            let error = none.check_address(host, "10.0.0.1".parse().unwrap()).unwrap_err();
            let reason = format!("{host} {is}; allow it with the operator's flag --git-hosts={host}");
            assert!(error.to_string().ends_with(&reason), "{error}");
        }
    }
}
