//! Tests the limits of a sandbox on the machine's network.

use std::time::{Duration, Instant};

use elevo_sandbox::{ContainerSpec, HostLimits, Network};
use elevo_testkit::docker;
use elevo_testkit::outside::{Outside, PORT, PUBLIC};

use crate::support::{Installation, MIB, host, with_limits};

/// Number of datagrams, each to another port.
const DATAGRAMS: usize = 200;

fn flooding(own: &Installation, script: &str) -> ContainerSpec {
    let mut spec = own.spec("");
    spec.image = docker::image();
    // The script sends datagrams with redirections of bash.
    spec.command = ["/bin/bash", "-c", script].map(str::to_owned).to_vec();
    spec.network = Network::Internet;
    spec
}

/// Returns the spec of a sandbox that sends the datagrams and then sleeps, so
/// that it keeps its address.
fn datagrams(own: &Installation) -> ContainerSpec {
    let last = 10_000 + DATAGRAMS - 1;
    let script = format!(
        "for port in {{10000..{last}}}; do \
         echo x >/dev/udp/{PUBLIC}/$port; done 2>/dev/null; echo sent; sleep 1000"
    );
    flooding(own, &script)
}

/// Counts the entries of the machine's connection table whose source is this
/// address.
fn entries_from(address: &str) -> usize {
    let table = std::fs::read_to_string("/proc/net/nf_conntrack").unwrap();
    let from = format!("src={address} dst={PUBLIC} ");
    table.lines().filter(|line| line.contains(&from)).count()
}

async fn entries_after_a_flood(own: &Installation) -> usize {
    let id = own.start(&datagrams(own)).await;
    own.wrote(&id, "sent").await;
    let settings = own.inspect(&id).await.network_settings.unwrap();
    let network = settings.networks.unwrap().into_values().next().unwrap();
    entries_from(&network.ip_address.unwrap())
}

/// Asserts that another sandbox still reaches the internet.
async fn neighbour_connects(own: &Installation) {
    let script = format!("timeout 10 cat </dev/tcp/{PUBLIC}/{PORT}");
    assert_eq!(own.output(&flooding(own, &script)).await, "hello\n");
}

#[test]
fn a_flood_without_limits_fills_the_table_of_connections() {
    with_limits(HostLimits::NONE, async |own| {
        let _outside = Outside::new();
        // The tests below rely on this: every datagram creates an entry.
        assert_eq!(entries_after_a_flood(&own).await, DATAGRAMS);
    });
}

#[test]
fn a_sandbox_has_a_bounded_number_of_connections() {
    let limits = HostLimits {
        connections: 20,
        ..HostLimits::NONE
    };
    with_limits(limits, async |own| {
        let _outside = Outside::new();
        let entries = entries_after_a_flood(&own).await;
        assert!((1..=20).contains(&entries), "{entries}");
        neighbour_connects(&own).await;
    });
}

#[test]
fn a_sandbox_makes_a_bounded_number_of_connections_a_second() {
    let limits = HostLimits {
        connections_per_second: 1,
        ..HostLimits::NONE
    };
    with_limits(limits, async |own| {
        let _outside = Outside::new();
        let start = Instant::now();
        let entries = entries_after_a_flood(&own).await;
        let most = HostLimits::BURST as usize + start.elapsed().as_secs() as usize + 1;
        assert!((1..=most).contains(&entries), "{entries} of {most}");
        assert!(
            most < DATAGRAMS,
            "the bound says nothing after {most} seconds"
        );
        neighbour_connects(&own).await;
    });
}

/// Returns the bytes that entered a chain, and the bytes that its limit
/// dropped.
fn passed(own: &Installation, chain: &str) -> (u64, u64) {
    let saved = host(&["iptables-save", "--counters", "-t", "filter"]);
    let bytes = |line: &str| -> u64 {
        let counters = line.strip_prefix('[').unwrap().split_once(']').unwrap().0;
        counters.split_once(':').unwrap().1.parse().unwrap()
    };
    let mark = format!("elevo:{}", own.server);
    let hook = saved
        .lines()
        .find(|line| line.contains(&mark) && line.contains(chain))
        .unwrap();
    let name = hook.rsplit_once(' ').unwrap().1;
    let limit = format!("-A {name} -m hashlimit");
    let limit = saved.lines().find(|line| line.contains(&limit)).unwrap();
    (bytes(hook), bytes(limit))
}

/// Asserts that at most a megabyte per second passed the limit.
fn assert_slowed(own: &Installation, chain: &str, elapsed: Duration) {
    let (came, dropped) = passed(own, chain);
    let through = came - dropped;
    // The bytes of one second may pass at once.
    let most = (elapsed.as_secs() + 2) * MIB;
    assert!(
        dropped > 0 && through <= most,
        "{through} of {came} in {elapsed:?}"
    );
}

/// Returns a script that sends at least 20 MB in datagrams, even if some are
/// rejected.
fn flood(address: &str) -> String {
    format!("for i in {{1..40000}}; do printf %1000s; done >/dev/udp/{address}/9999 2>/dev/null")
}

const SLOW: HostLimits = HostLimits {
    network_mib: 1,
    ..HostLimits::NONE
};

#[test]
fn a_sandbox_sends_a_bounded_number_of_bytes_a_second() {
    with_limits(SLOW, async |own| {
        let _outside = Outside::new();
        let start = Instant::now();
        let script = flood(PUBLIC);
        own.output(&flooding(&own, &script)).await;
        assert_slowed(&own, "ELEVO-FWD", start.elapsed());
        neighbour_connects(&own).await;
    });
}

#[test]
fn a_sandbox_receives_a_bounded_number_of_bytes_a_second() {
    with_limits(SLOW, async |own| {
        let outside = Outside::new();
        let id = own.start(&flooding(&own, "echo started; sleep 1000")).await;
        own.wrote(&id, "started").await;
        let settings = own.inspect(&id).await.network_settings.unwrap();
        let network = settings.networks.unwrap().into_values().next().unwrap();
        let address = network.ip_address.unwrap();
        let start = Instant::now();
        // The engine drops unsolicited packets, but only after they have passed
        // the limit.
        outside.run(&flood(&address));
        assert_slowed(&own, "ELEVO-TO", start.elapsed());
        neighbour_connects(&own).await;
    });
}
