//! The rules of a network in the packet filter, in the text format of
//! `iptables-restore` and `iptables-save`.
//!
//! ```text
//! DOCKER-USER ── from our bridge ──► ELEVO-FWD-…   above a limit: drop
//!                                                  to another sandbox: drop
//!                                                  to a resolver, port 53: continue
//!                                                  to an address that is not public: drop
//!                                                  otherwise: continue
//!             ── to our bridge ────► ELEVO-TO-…    above a limit: drop
//! INPUT ──────── from our bridge ──► ELEVO-IN-…    above a limit: drop
//!                                                  to a resolver, port 53: continue
//!                                                  otherwise: drop
//! ```
//!
//! A connection whose first packet is dropped gets no entry in the kernel's
//! connection table, which the whole machine shares.
//!
//! The network has no IPv6, so in the filter of IPv6 the same chains drop every
//! packet.

use std::net::IpAddr;

use crate::host_limits::HostLimits;

/// Addresses that sandboxes must not reach: IANA's registry of special
/// addresses, and a public address that a cloud uses for an internal service.
const NOT_PUBLIC: [&str; 15] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

/// The largest burst that every version of the packet filter accepts.
const LARGEST_BURST: u32 = 10_000;

/// The chains of both families that may contain a jump to a chain of Elevo.
const PARENTS: [&str; 3] = ["DOCKER-USER", "FORWARD", "INPUT"];

/// The packet filter of IPv4 or of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// The rules of one network in one packet filter. Applying a value without chains
/// deletes all rules of the installation from the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The comment of this installation's hooks, by which the hooks of a
    /// deleted network are found.
    mark: String,
    chains: Vec<Chain>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    name: String,
    /// The chain that contains the jump (`hook`) to this chain.
    parent: &'static str,
    hook: String,
    rules: Vec<String>,
}

impl Rules {
    /// Returns empty rules, which delete all rules of the installation.
    pub(super) fn none(server: &str) -> Self {
        Self {
            mark: format!("elevo:{server}"),
            chains: Vec::new(),
        }
    }

    /// Returns the rules of the network with the id `network`.
    pub(super) fn of(
        server: &str,
        network: &str,
        family: Family,
        resolvers: &[IpAddr],
        limits: &HostLimits,
    ) -> Self {
        let tag = short(network);
        let bridge = bridge(network);
        let (forward, parent, to_host) = match family {
            Family::V4 => {
                let resolvers = to_resolvers(resolvers);
                let mut forward = of_sender(tag, limits);
                forward.push(format!("-o {bridge} -j DROP"));
                forward.extend(resolvers.clone());
                forward.extend(NOT_PUBLIC.map(|range| format!("-d {range} -j DROP")));
                let mut to_host = of_sender(tag, limits);
                to_host.extend(resolvers);
                to_host.push("-j DROP".to_owned());
                (forward, "DOCKER-USER", to_host)
            }
            Family::V6 => {
                let drop = vec!["-j DROP".to_owned()];
                (drop.clone(), "FORWARD", drop)
            }
        };
        let none = Self::none(server);
        let chain = |name: String, direction, parent, rules| Chain {
            hook: format!(
                "-{direction} {bridge} -m comment --comment {} -j {name}",
                none.mark
            ),
            name,
            parent,
            rules,
        };
        let mut chains = vec![
            chain(format!("ELEVO-FWD-{tag}"), 'i', parent, forward),
            chain(format!("ELEVO-IN-{tag}"), 'i', "INPUT", to_host),
        ];
        let to_sandbox = of_receiver(tag, limits);
        if family == Family::V4 && !to_sandbox.is_empty() {
            chains.push(chain(format!("ELEVO-TO-{tag}"), 'o', parent, to_sandbox));
        }
        Self { chains, ..none }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Returns the input of `iptables-restore --noflush` that changes the
    /// filter table, as printed by `iptables-save`, to these rules atomically;
    /// `None` if the rules are already in place.
    pub(super) fn changes_from(&self, saved: &str) -> Option<String> {
        let table = Table::parse(saved);
        let stale = self.stale(&table);
        if stale.is_empty() && self.chains.iter().all(|chain| table.has(chain)) {
            return None;
        }
        let mut script = String::from("*filter\n");
        let mut line = |text: String| {
            script.push_str(&text);
            script.push('\n');
        };
        // A line that declares a chain creates the chain, or empties it.
        for chain in &self.chains {
            line(format!(":{} - [0:0]", chain.name));
        }
        for chain in &self.chains {
            for rule in &chain.rules {
                line(format!("-A {} {rule}", chain.name));
            }
            for hook in table.hooks(&chain.name) {
                line(format!("-D {hook}"));
            }
            line(format!("-I {} 1 {}", chain.parent, chain.hook));
        }
        for hook in &stale {
            line(format!("-D {hook}"));
        }
        for name in table.targets(&stale) {
            line(format!("-F {name}"));
            line(format!("-X {name}"));
        }
        line("COMMIT".to_owned());
        Some(script)
    }

    /// Returns the hooks of this installation that jump to chains that these
    /// rules do not have.
    fn stale<'a>(&self, table: &Table<'a>) -> Vec<&'a str> {
        let ours = |rule: &&str| {
            let mut words = rule.split_whitespace().map(|word| word.trim_matches('"'));
            words.any(|word| word == self.mark)
        };
        let wanted = |rule: &str| {
            let target = target(rule);
            self.chains.iter().any(|chain| target == Some(&chain.name))
        };
        let hooks = table.rules_of_parents().filter(ours);
        hooks.filter(|rule| !wanted(rule)).collect()
    }
}

/// The filter table as `iptables-save` prints it.
#[derive(Debug)]
struct Table<'a> {
    /// The names of all chains.
    chains: Vec<&'a str>,
    /// Rules without the leading `-A `.
    rules: Vec<&'a str>,
}

impl<'a> Table<'a> {
    fn parse(saved: &'a str) -> Self {
        let lines = || saved.lines().map(str::trim);
        Self {
            chains: lines()
                .filter_map(|line| line.strip_prefix(':')?.split_whitespace().next())
                .collect(),
            rules: lines()
                .filter_map(|line| line.strip_prefix("-A "))
                .collect(),
        }
    }

    /// Returns whether the chain exists with exactly its rules, and its hook
    /// precedes all rules that could let a packet bypass it.
    fn has(&self, chain: &Chain) -> bool {
        let rules = self.rules_of(&chain.name).map(without_rate);
        let wanted = chain.rules.iter().map(|rule| without_rate(rule));
        let same = rules.eq(wanted);
        let hooked = self
            .rules_of(chain.parent)
            .take_while(|rule| is_ours(rule))
            .any(|rule| rule.replace('"', "") == chain.hook);
        self.chains.contains(&&*chain.name)
            && same
            && hooked
            && self.hooks(&chain.name).count() == 1
    }

    fn rules_of<'b>(&'b self, chain: &'b str) -> impl Iterator<Item = &'a str> + 'b {
        let of = move |rule: &&'a str| rule.strip_prefix(chain)?.strip_prefix(' ');
        self.rules.iter().filter_map(of)
    }

    fn rules_of_parents(&self) -> impl Iterator<Item = &'a str> {
        let in_parent = |rule: &&str| {
            let chain = rule.split_whitespace().next();
            chain.is_some_and(|chain| PARENTS.contains(&chain))
        };
        self.rules.iter().copied().filter(in_parent)
    }

    fn hooks<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a str> + 'b {
        self.rules_of_parents()
            .filter(move |rule| target(rule) == Some(name))
    }

    /// Returns the chains that these hooks jump to, without duplicates.
    fn targets(&self, hooks: &[&'a str]) -> Vec<&'a str> {
        let mut names: Vec<_> = hooks.iter().filter_map(|hook| target(hook)).collect();
        names.retain(|name| name.starts_with("ELEVO-") && self.chains.contains(name));
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Returns the limits on packets that a sandbox sends.
fn of_sender(tag: &str, limits: &HostLimits) -> Vec<String> {
    let mut rules = Vec::new();
    let new = "-m conntrack --ctstate NEW";
    if limits.connections > 0 {
        rules.push(format!(
            "{new} -m connlimit --connlimit-above {} --connlimit-mask 32 --connlimit-saddr -j DROP",
            limits.connections
        ));
    }
    if limits.connections_per_second > 0 {
        let each_second = limits.connections_per_second;
        let burst = each_second
            .saturating_mul(HostLimits::BURST)
            .min(LARGEST_BURST);
        rules.push(format!(
            "{new} -m hashlimit --hashlimit-above {each_second}/sec --hashlimit-burst {burst} \
             --hashlimit-mode srcip --hashlimit-name elevo-new-{tag}-{each_second} -j DROP"
        ));
    }
    rules.extend(of_bytes(tag, "src", limits));
    rules
}

/// Returns the limits on packets that a sandbox receives.
fn of_receiver(tag: &str, limits: &HostLimits) -> Vec<String> {
    of_bytes(tag, "dst", limits).into_iter().collect()
}

fn of_bytes(tag: &str, side: &str, limits: &HostLimits) -> Option<String> {
    let rate = limits.network_mib;
    (rate > 0).then(|| {
        format!(
            "-m hashlimit --hashlimit-above {rate}mb/s --hashlimit-mode {side}ip \
             --hashlimit-name elevo-{side}-{tag}-{rate} -j DROP"
        )
    })
}

/// Removes the rate from a rule, because the kernel rounds the rate. The name
/// of the limit contains the exact rate.
fn without_rate(rule: &str) -> String {
    let mut words: Vec<_> = rule.split(' ').collect();
    let rate = words.iter().position(|word| *word == "--hashlimit-above");
    if let Some(rate) = rate.filter(|rate| rate + 1 < words.len()) {
        words.remove(rate + 1);
    }
    words.join(" ")
}

fn is_ours(rule: &str) -> bool {
    target(rule).is_some_and(|name| name.starts_with("ELEVO-"))
}

fn target(rule: &str) -> Option<&str> {
    rule.rsplit_once("-j ")?.1.split_whitespace().next()
}

/// Returns whether the table has Docker's chain for user rules and forwarded
/// packets pass it.
pub(super) fn has_docker_chain(saved: &str) -> bool {
    let table = Table::parse(saved);
    let hooked = table
        .rules_of("FORWARD")
        .any(|rule| rule == "-j DOCKER-USER");
    hooked && table.chains.contains(&"DOCKER-USER")
}

fn to_resolvers(resolvers: &[IpAddr]) -> Vec<String> {
    let v4 = resolvers.iter().filter(|address| address.is_ipv4());
    v4.flat_map(|address| {
        ["udp", "tcp"].map(|protocol| {
            format!("-d {address}/32 -p {protocol} -m {protocol} --dport 53 -j RETURN")
        })
    })
    .collect()
}

/// Returns the name of the interface that the engine creates for a network.
pub(super) fn bridge(network: &str) -> String {
    format!("br-{}", short(network))
}

fn short(network: &str) -> &str {
    network.get(..12).unwrap_or(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "*filter\n:INPUT ACCEPT [1:2]\n:FORWARD DROP [0:0]\n:DOCKER-USER - [0:0]\n\
                         -A FORWARD -j DOCKER-USER\n-A DOCKER-USER -j RETURN\nCOMMIT\n";

    fn rules(network: &str) -> Rules {
        let resolvers = [IpAddr::from([10, 0, 0, 2])];
        let limits = HostLimits::default();
        Rules::of("srv", network, Family::V4, &resolvers, &limits)
    }

    /// Applies a script to a table; supports only the commands of these tests.
    fn apply(saved: &str, script: &str) -> String {
        let mut lines: Vec<String> = saved.lines().map(str::to_owned).collect();
        for line in script.lines() {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            match verb {
                "-A" => lines.push(line.to_owned()),
                "-I" => {
                    let (chain, rule) = rest.split_once(" 1 ").unwrap();
                    lines.insert(0, format!("-A {chain} {rule}"));
                }
                "-D" => {
                    let at = lines.iter().position(|line| line == &format!("-A {rest}"));
                    lines.remove(at.unwrap());
                }
                "-F" => lines.retain(|line| !line.starts_with(&format!("-A {rest} "))),
                "-X" => lines.retain(|line| !line.starts_with(&format!(":{rest} "))),
                chain if chain.starts_with(':') => {
                    let name = &chain[1..];
                    lines.retain(|line| {
                        !line.starts_with(&format!("-A {name} "))
                            && !line.starts_with(&format!(":{name} "))
                    });
                    lines.push(line.to_owned());
                }
                _ => {}
            }
        }
        lines.join("\n")
    }

    #[test]
    fn rules_that_are_in_place_are_left_alone() {
        let rules = rules("0123456789abcdef");
        let script = rules.changes_from(EMPTY).unwrap();
        let table = apply(EMPTY, &script);
        assert_eq!(rules.changes_from(&table), None, "{table}");
    }

    #[test]
    fn a_resolver_is_let_through_before_its_range_is_dropped() {
        let script = rules("0123456789abcdef").changes_from(EMPTY).unwrap();
        let at = |text: &str| {
            script
                .find(text)
                .unwrap_or_else(|| panic!("{text} in {script}"))
        };
        let resolver =
            "-A ELEVO-FWD-0123456789ab -d 10.0.0.2/32 -p udp -m udp --dport 53 -j RETURN";
        assert!(at("-o br-0123456789ab -j DROP") < at(resolver));
        assert!(at(resolver) < at("-A ELEVO-FWD-0123456789ab -d 10.0.0.0/8 -j DROP"));
    }

    #[test]
    fn a_hook_behind_a_foreign_rule_is_moved_to_the_front() {
        let rules = rules("0123456789abcdef");
        let table = apply(EMPTY, &rules.changes_from(EMPTY).unwrap());
        let accepting = format!("-A INPUT -j ACCEPT\n{table}");
        let script = rules.changes_from(&accepting).unwrap();
        let table = apply(&accepting, &script);
        assert_eq!(rules.changes_from(&table), None, "{table}");
    }

    #[test]
    fn restores_a_missing_rule() {
        let rules = rules("0123456789abcdef");
        let table = apply(EMPTY, &rules.changes_from(EMPTY).unwrap());
        let broken = table.replace("-A ELEVO-FWD-0123456789ab -d 10.0.0.0/8 -j DROP\n", "");
        assert_ne!(broken, table);
        let mended = apply(&broken, &rules.changes_from(&broken).unwrap());
        assert_eq!(rules.changes_from(&mended), None);
    }

    #[test]
    fn accepts_a_rounded_rate_and_replaces_another_rate() {
        let rules = rules("0123456789abcdef");
        let table = apply(EMPTY, &rules.changes_from(EMPTY).unwrap());
        let rounded = table.replace("above 64mb/s", "above 65mb/s");
        assert_ne!(rounded, table);
        assert_eq!(rules.changes_from(&rounded), None);
        let limits = HostLimits {
            network_mib: 65,
            ..HostLimits::default()
        };
        let resolvers = [IpAddr::from([10, 0, 0, 2])];
        let other = Rules::of("srv", "0123456789abcdef", Family::V4, &resolvers, &limits);
        assert!(other.changes_from(&table).is_some());
    }

    #[test]
    fn limits_come_before_rules_that_accept_packets() {
        let script = rules("0123456789abcdef").changes_from(EMPTY).unwrap();
        for chain in ["FWD", "IN"] {
            let rule = format!("-A ELEVO-{chain}-0123456789ab ");
            let rules: Vec<_> = script
                .lines()
                .filter(|line| line.starts_with(&rule))
                .collect();
            let limit = |rule: &&str| rule.contains("limit-above");
            assert!(rules.iter().take(3).all(limit), "{rules:?}");
            assert!(!rules.iter().skip(3).any(limit), "{rules:?}");
        }
    }

    #[test]
    fn rules_of_a_former_network_are_deleted_and_others_stay() {
        let former = rules("ffffffffffffffff");
        let limits = HostLimits::NONE;
        let other = Rules::of("other", "eeeeeeeeeeeeeeee", Family::V4, &[], &limits);
        let mut table = apply(EMPTY, &former.changes_from(EMPTY).unwrap());
        table = apply(&table, &other.changes_from(&table).unwrap());

        let now = rules("0123456789abcdef");
        table = apply(&table, &now.changes_from(&table).unwrap());
        assert!(!table.contains("ffffffffffff"), "{table}");
        assert_eq!(other.changes_from(&table), None);

        let none = Rules::none("srv");
        table = apply(&table, &none.changes_from(&table).unwrap());
        assert!(!table.contains("0123456789ab"), "{table}");
        assert_eq!(none.changes_from(&table), None);
        assert_eq!(other.changes_from(&table), None);
    }

    #[test]
    fn dockers_chain_counts_only_if_forward_jumps_to_it() {
        assert!(has_docker_chain(EMPTY));
        assert!(!has_docker_chain(
            &EMPTY.replace("-A FORWARD -j DOCKER-USER\n", "")
        ));
        assert!(!has_docker_chain(""));
    }

    #[test]
    fn quotes_around_a_mark_are_ignored() {
        let rules = rules("0123456789abcdef");
        let table = apply(EMPTY, &rules.changes_from(EMPTY).unwrap());
        let quoted = table.replace("elevo:srv", "\"elevo:srv\"");
        assert_eq!(rules.changes_from(&quoted), None);
        assert!(Rules::none("srv").changes_from(&quoted).is_some());
    }
}
