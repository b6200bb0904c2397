//! Tests promise 5, the addresses that a sandbox can reach, and promise 12,
//! that nothing of the network is left.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use elevo_sandbox::{
    ContainerId, ContainerSpec, DockerRuntime, DockerSettings, Error, HostLimits, Network,
    SandboxRuntime,
};
use elevo_testkit::outside::{DNS, HOST, METADATA, Outside, PORT, PRIVATE, PUBLIC, SHARED};

use crate::support::{Installation, host, with_installation};

/// Number of hooks of an installation: three for IPv4, two for IPv6.
const HOOKS: usize = 5;

/// Returns the spec of a sandbox that connects to each target and prints the
/// targets that responded.
fn probe(own: &Installation, targets: &[(&str, u16)]) -> ContainerSpec {
    let mut script = String::new();
    for (address, port) in targets {
        script += &format!(
            "if nc -w 2 {address} {port} </dev/null 2>/dev/null | grep -q hello; \
             then echo {address}:{port} reached; else echo {address}:{port} not; fi\n"
        );
    }
    on_internet(own.spec(&script))
}

fn on_internet(mut spec: ContainerSpec) -> ContainerSpec {
    spec.network = Network::Internet;
    spec
}

/// Returns the targets that were reached.
async fn reached(own: &Installation, targets: &[(&str, u16)]) -> Vec<String> {
    let seen = own.output(&probe(own, targets)).await;
    assert_eq!(seen.lines().count(), targets.len(), "{seen}");
    let reached = seen
        .lines()
        .filter_map(|line| line.strip_suffix(" reached"));
    reached.map(str::to_owned).collect()
}

/// Listens on an address of the host, and sends a text to every connection.
fn greeter(address: &str) -> SocketAddr {
    let listener = TcpListener::bind((address.parse::<IpAddr>().unwrap(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = std::io::Write::write_all(&mut stream.unwrap(), b"hello\n");
        }
    });
    // The host itself must reach the listener; otherwise the test would prove
    // nothing.
    TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
    address
}

async fn addresses(own: &Installation, id: &ContainerId) -> (String, String) {
    let settings = own.inspect(id).await.network_settings.unwrap();
    let network = settings.networks.unwrap().into_values().next().unwrap();
    (network.ip_address.unwrap(), network.gateway.unwrap())
}

fn rules_of(own: &Installation) -> String {
    let v4 = host(&["iptables-save", "-t", "filter"]);
    let v6 = host(&["ip6tables-save", "-t", "filter"]);
    let mark = format!("elevo:{}", own.server);
    let hooks = v4
        .lines()
        .chain(v6.lines())
        .filter(|line| line.contains(&mark));
    hooks.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_sandbox_without_network_has_a_loopback_interface_and_no_other() {
    with_installation(async |own| {
        let seen = own
            .inside("ls /sys/class/net; ip route; ip address show lo | grep -c 127.0.0.1")
            .await;
        assert_eq!(seen, "lo\n1\n");
    });
}

#[test]
fn a_sandbox_reaches_only_public_addresses() {
    with_installation(async |own| {
        let _outside = Outside::new();
        let targets = [PUBLIC, PRIVATE, METADATA, SHARED].map(|address| (address, PORT));
        assert_eq!(reached(&own, &targets).await, [format!("{PUBLIC}:{PORT}")]);
    });
}

#[test]
fn a_resolver_in_a_private_range_is_reachable_only_on_port_53() {
    with_installation(async |own| {
        let _outside = Outside::new();
        let own = with_resolver(&own, PRIVATE).await;
        let targets = [(PRIVATE, DNS), (PRIVATE, PORT), (METADATA, DNS)];
        assert_eq!(reached(&own, &targets).await, [format!("{PRIVATE}:{DNS}")]);
    });
}

#[test]
fn names_are_resolved_by_a_resolver_on_the_host() {
    with_installation(async |own| {
        let _outside = Outside::new();
        let socket = UdpSocket::bind((HOST, DNS)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let resolver = std::thread::spawn(move || {
            let mut query = [0; 512];
            let (size, from) = socket.recv_from(&mut query).unwrap();
            // Turns the query into the response "no such name".
            query[2..4].copy_from_slice(&[0x81, 0x83]);
            socket.send_to(&query[..size], from).unwrap();
        });
        let own = with_resolver(&own, HOST).await;
        let script = "nslookup -type=a name.example 2>&1";
        let seen = own.output(&on_internet(own.spec(script))).await;
        resolver.join().unwrap();
        assert!(seen.contains("NXDOMAIN"), "{seen}");
    });
}

/// Returns the same installation with a resolver at this address.
async fn with_resolver(own: &Installation, address: &str) -> Installation {
    let settings = DockerSettings {
        host: elevo_testkit::docker::host(),
        server: own.server.clone(),
        network: format!("elevo-{}", own.server),
        limits: HostLimits::default(),
        registries: None,
    };
    let runtime = DockerRuntime::connect(settings).await.unwrap();
    Installation {
        runtime: runtime
            .with_resolvers(vec![address.parse().unwrap()])
            .into(),
        server: own.server.clone(),
        engine: own.engine.clone(),
    }
}

#[test]
fn a_sandbox_reaches_no_address_of_the_host() {
    with_installation(async |own| {
        let _outside = Outside::new();
        let id = own.start(&on_internet(own.spec("sleep 1000"))).await;
        let (_, gateway) = addresses(&own, &id).await;
        let listeners = [greeter(&gateway), greeter(HOST)];
        let hosts = listeners.map(|address| (address.ip().to_string(), address.port()));
        let mut targets: Vec<_> = hosts.iter().map(|(ip, port)| (&**ip, *port)).collect();
        targets.push((PUBLIC, PORT));
        assert_eq!(reached(&own, &targets).await, [format!("{PUBLIC}:{PORT}")]);
    });
}

#[test]
fn two_sandboxes_do_not_reach_each_other() {
    with_installation(async |own| {
        let _outside = Outside::new();
        let script = "nc -ll -p 8000 -e /bin/echo hello & \
                      until nc -w 1 127.0.0.1 8000 </dev/null | grep hello; do sleep 0.1; done; wait";
        let first = own.start(&on_internet(own.spec(script))).await;
        own.wrote(&first, "hello").await;
        let (address, _) = addresses(&own, &first).await;
        let targets = [(&*address, PORT), (PUBLIC, PORT)];
        assert_eq!(reached(&own, &targets).await, [format!("{PUBLIC}:{PORT}")]);
    });
}

/// Without a countermeasure, Docker's resolver answers queries for the names of
/// other containers on a user-defined network.
#[test]
fn a_sandbox_cannot_resolve_the_names_of_others() {
    with_installation(async |own| {
        let _outside = Outside::new();
        let own = with_resolver(&own, PRIVATE).await;
        let first = own.start(&on_internet(own.spec("sleep 1000"))).await;
        let (address, _) = addresses(&own, &first).await;
        let name = own.inspect(&first).await.name.unwrap();
        let name = name.trim_start_matches('/');
        let short = &first.as_str()[..12];
        let ask = |what: &str, whom: &str| format!("nslookup -timeout=1 -retry=1 {what} {whom};");
        let asked = [name, short, &*address].map(|what| ask(what, "") + &ask(what, "127.0.0.11"));
        let script = format!("cat /etc/resolv.conf; {} echo end", asked.concat());
        // The sandbox runs its command after the start has returned, as agents
        // do.
        let spec = on_internet(own.spec(&format!(
            "until [ -e /tmp/go ]; do sleep 0.1; done; {script}"
        )));
        let id = own.start(&spec).await;
        let engine = elevo_testkit::docker::host();
        host(&[
            "docker",
            "--host",
            &engine,
            "exec",
            id.as_str(),
            "touch",
            "/tmp/go",
        ]);
        own.ended(&id).await;
        let seen = own.logs(&id).await;
        assert!(
            seen.starts_with(&format!("nameserver {PRIVATE}\n")),
            "{seen}"
        );
        assert!(seen.ends_with("end\n"), "{seen}");
        // The output always contains the queried address, so the test searches
        // for an answer instead.
        assert!(
            !seen.contains("Name:") && !seen.contains("name ="),
            "{seen}"
        );
    });
}

#[test]
fn a_sandbox_has_no_ipv6_address() {
    with_installation(async |own| {
        let seen = own
            .output(&on_internet(own.spec("cat /proc/net/if_inet6; echo end")))
            .await;
        for line in seen.lines().filter(|line| *line != "end") {
            assert!(line.ends_with("lo"), "{line}");
        }
    });
}

#[test]
fn restores_rules_before_a_sandbox_starts() {
    with_installation(async |own| {
        let _outside = Outside::new();
        let id = own
            .runtime
            .create(&probe(&own, &[(PRIVATE, PORT)]))
            .await
            .unwrap();
        let before = rules_of(&own);
        assert_eq!(before.lines().count(), HOOKS, "{before}");
        for line in before.lines().take(2) {
            let rule = line.strip_prefix("-A ").unwrap();
            let words = rule.split_whitespace().map(|word| word.trim_matches('"'));
            host(&[&["iptables", "-w", "-D"], &*words.collect::<Vec<_>>()].concat());
        }
        assert_ne!(rules_of(&own), before);

        own.runtime.start(&id).await.unwrap();
        assert_eq!(rules_of(&own), before);
        own.ended(&id).await;
        assert_eq!(own.logs(&id).await, format!("{PRIVATE}:{PORT} not\n"));
    });
}

#[test]
fn a_check_restores_rules_and_a_second_check_changes_nothing() {
    with_installation(async |own| {
        own.runtime
            .create(&on_internet(own.spec("true")))
            .await
            .unwrap();
        let before = rules_of(&own);
        own.runtime
            .create(&on_internet(own.spec("true")))
            .await
            .unwrap();
        assert_eq!(own.runtime.check().await.unwrap().internet, None);
        assert_eq!(rules_of(&own), before);
    });
}

#[test]
fn a_tear_down_leaves_nothing_of_the_network() {
    with_installation(async |own| {
        let id = own.start(&on_internet(own.spec("sleep 1000"))).await;
        let refused = async || {
            let error = own.runtime.tear_down().await.unwrap_err();
            assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
            let rules = rules_of(&own);
            assert_eq!(
                rules.lines().count(),
                HOOKS,
                "the rules stay with the network"
            );
        };
        refused().await;
        // A stopped container starts again on the same network.
        own.runtime.kill(&id).await.unwrap();
        refused().await;
        own.runtime.start(&id).await.unwrap();

        own.runtime.remove(&id).await.unwrap();
        own.runtime.tear_down().await.unwrap();
        own.runtime.tear_down().await.unwrap();
        assert_eq!(rules_of(&own), "");
        let network = format!("elevo-{}", own.server);
        assert!(own.engine.inspect_network(&network, None).await.is_err());

        own.start(&on_internet(own.spec("sleep 1000"))).await;
        assert_eq!(
            rules_of(&own).lines().count(),
            HOOKS,
            "the rules are created again"
        );
    });
}

/// The operator creates the network with `docker network create`, and disables
/// traffic between its containers.
#[test]
fn uses_and_keeps_a_network_that_an_operator_created() {
    with_installation(async |own| {
        let network = format!("elevo-{}", own.server);
        let engine = elevo_testkit::docker::host();
        let option = "com.docker.network.bridge.enable_icc=false";
        let docker = ["docker", "--host", &engine, "network"];
        host(&[&docker[..], &["create", "-o", option, &network]].concat());
        let seen = own.output(&on_internet(own.spec("echo it runs"))).await;
        let guarded = rules_of(&own).lines().count();
        own.clean_up().await;
        let left = host(&[&docker[..], &["ls", "--format", "{{.Name}}"]].concat());
        host(&[&docker[..], &["rm", &network]].concat());
        assert!(seen.contains("it runs"), "{seen}");
        assert!(guarded > 0, "the network is not guarded");
        assert!(left.lines().any(|name| name == network), "{left}");
    });
}

#[test]
fn rejects_a_network_on_which_containers_reach_each_other() {
    with_installation(async |own| {
        let network = format!("elevo-{}", own.server);
        let engine = elevo_testkit::docker::host();
        host(&["docker", "--host", &engine, "network", "create", &network]);
        let created = own.runtime.create(&on_internet(own.spec("true"))).await;
        host(&["docker", "--host", &engine, "network", "rm", &network]);
        let error = created.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Refused {
                    what: "network",
                    ..
                }
            ),
            "{error:?}"
        );
    });
}

const ELSEWHERE: &str = "ELEVO_TEST_ELSEWHERE";

/// Runs in another network namespace than the engine, where rules would have no
/// effect.
#[test]
fn without_rules_internet_is_rejected_and_none_works() {
    if std::env::var_os(ELSEWHERE).is_none() {
        let status = Command::new("unshare")
            .args(["--net", "--"])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "network::without_rules_internet_is_rejected_and_none_works",
            ])
            .env(ELSEWHERE, "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    with_installation(async |own| {
        let refused = own.runtime.create(&on_internet(own.spec("true"))).await;
        let error = refused.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Refused {
                    what: "network",
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(own.runtime.check().await.unwrap().internet.is_some());
        assert_eq!(own.inside("echo works").await, "works\n");
    });
}
