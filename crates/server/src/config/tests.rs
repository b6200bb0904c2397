use super::*;

fn read(file: &str, environment: &[(&str, &str)]) -> Result<Config, InvalidConfig> {
    let pairs = environment.iter();
    Config::read(
        Some(file),
        pairs.map(|(name, value)| ((*name).into(), (*value).into())),
    )
}

#[test]
fn the_environment_takes_precedence_over_the_file_and_both_over_defaults() {
    let config = read(
        "api_port = 1\nmax_sandboxes = 7\ndefault_memory = \"1g\"",
        &[("API_PORT", "2"), ("PATH", "/bin")],
    );
    let config = config.unwrap();
    assert_eq!(config.api, "127.0.0.1:2".parse().unwrap());
    assert_eq!(config.limits.max_sandboxes, 7);
    assert_eq!(config.limits.memory, (1 << 30, 16 << 30));
    assert_eq!(config.limits.key.creates_per_minute, Some(60));
    assert_eq!(config.limits.key.sandboxes, Some(100));
}

#[test]
fn reports_every_problem_at_once() {
    let error = read(
        "api_prot = 1\nmax_sandboxes = 0",
        &[
            ("API_HOST", "0.0.0.0"),
            ("SANDBOX_USER", "0:0"),
            ("DEFAULT_MEMORY", "32g"),
            ("API_KEY", "short"),
            ("TLS_CERT", "/nowhere"),
        ],
    );
    let InvalidConfig(problems) = error.unwrap_err();
    for part in [
        "api_prot",
        "MAX_SANDBOXES",
        "API_HOST",
        "SANDBOX_USER",
        "MAX_MEMORY",
        "API_KEY",
        "TLS_KEY",
    ] {
        let found = problems.iter().any(|problem| problem.contains(part));
        assert!(found, "{part}: {problems:?}");
    }
    assert!(!format!("{problems:?}").contains("short\""));
}

#[test]
fn garbage_collection_can_be_configured() {
    let set = [("GC_INTERVAL", "0"), ("GC_KEEP_UNNAMED", "7200")];
    let garbage = read("gc_disk_percent = 50", &set).unwrap().garbage;
    assert_eq!(garbage.interval, None);
    assert_eq!(garbage.disk_percent, 50);
    assert_eq!(garbage.keep_unnamed, Duration::from_secs(7200));
}

#[test]
fn the_secret_of_the_webhook_is_checked() {
    let secret = |text: &str| read("", &[("WEBHOOK_SECRET", text)]);
    let found = secret("plain").unwrap().webhooks.secret;
    assert_eq!(found.map(|secret| secret.0), Some("plain".to_owned()));
    assert!(secret("").unwrap().webhooks.secret.is_none());
    let InvalidConfig(problems) = secret("whsec_short").unwrap_err();
    assert!(problems[0].contains("WEBHOOK_SECRET"), "{problems:?}");
}

#[test]
fn limits_of_network_and_disks_can_be_configured() {
    let known = elevo_sandbox::HostLimits::default();
    assert_eq!(read("", &[]).unwrap().host_limits, known);
    let set = [
        ("SANDBOX_CONNECTIONS", "0"),
        ("SANDBOX_NEW_CONNECTIONS", "7"),
        ("SANDBOX_NETWORK_RATE", "8"),
        ("SANDBOX_DISK_OPERATIONS", "9"),
    ];
    let limits = read("sandbox_disk_rate = 10", &set).unwrap().host_limits;
    assert_eq!((limits.connections, limits.connections_per_second), (0, 7));
    assert_eq!(limits.network_mib, 8);
    assert_eq!((limits.disk_mib, limits.disk_operations), (10, 9));
    assert!(read("sandbox_connections = many", &[]).is_err());
}

#[test]
fn warm_pools_are_parsed() {
    let set = [(
        "WARM_POOL",
        "python:3.11=5; a/b@sha256:00=2 network=none runtime=runsc;",
    )];
    let pools = read("", &set).unwrap().warm;
    let [python, other] = &pools[..] else {
        panic!("{pools:?}");
    };
    assert_eq!((&*python.template, python.size), ("python:3.11", 5));
    assert_eq!((python.network, &python.runtime), (None, &None));
    assert_eq!((&*other.template, other.size), ("a/b@sha256:00", 2));
    assert_eq!(other.network, Some(NetworkMode::None));
    assert_eq!(other.runtime.as_deref(), Some("runsc"));
    for wrong in [
        "python",
        "python=0",
        "python=1001",
        "p=1 net=none",
        "p=1 network=all",
    ] {
        assert!(read("", &[("WARM_POOL", wrong)]).is_err(), "{wrong}");
    }
}

#[test]
fn an_address_beyond_loopback_needs_tls_or_allow_plain_http() {
    let open = [("API_HOST", "0.0.0.0"), ("ALLOW_PLAIN_HTTP", "true")];
    assert!(read("", &open[..1]).is_err());
    assert!(read("", &open).is_ok());
    for (host, port) in [("GRPC_HOST", "GRPC_PORT"), ("METRICS_HOST", "METRICS_PORT")] {
        let open = [(host, "0.0.0.0"), (port, "1"), ("ALLOW_PLAIN_HTTP", "true")];
        let InvalidConfig(problems) = read("", &open[..2]).unwrap_err();
        assert!(problems[0].contains(host), "{problems:?}");
        assert!(read("", &open).is_ok());
    }
}

#[test]
fn a_proxy_in_front_can_be_configured() {
    let set = [
        ("PUBLIC_URL", "https://elevo.example.com/base"),
        ("TRUSTED_PROXIES", "10.0.0.1, 192.0.2.0/24,2001:db8::/32"),
    ];
    let config = read("", &set).unwrap();
    assert_eq!(config.public_url.unwrap().path(), "/base");
    assert_eq!(config.trusted_proxies.len(), 3);
    assert!(config.trusted_proxies[0].contains(&"10.0.0.1".parse::<std::net::IpAddr>().unwrap()));
    for wrong in ["elevo.example.com", "ftp://x", "https://x/?a"] {
        assert!(read("", &[("PUBLIC_URL", wrong)]).is_err(), "{wrong}");
    }
    assert!(read("", &[("TRUSTED_PROXIES", "proxy")]).is_err());
}

#[test]
fn origins_are_read_as_browsers_send_them() {
    let origins = "https://app.example.com, http://localhost:3000,https://[::1]:8443";
    let config = read("", &[("ALLOWED_ORIGINS", origins)]).unwrap();
    assert_eq!(config.allowed_origins.len(), 3);
    assert_eq!(config.allowed_origins[1], "http://localhost:3000");
    assert!(read("", &[]).unwrap().allowed_origins.is_empty());
    for wrong in [
        "*",
        "null",
        "app.example.com",
        "https://app.example.com/",
        "https://app.example.com:443",
        "https://App.example.com",
        "https://*.example.com",
        "file:///x",
        "ws://app.example.com",
    ] {
        assert!(read("", &[("ALLOWED_ORIGINS", wrong)]).is_err(), "{wrong}");
    }
}

#[test]
fn rejects_a_key_file_in_the_data_directory() {
    let config = read("", &[("DATA_DIR", "/srv/elevo/")]).unwrap();
    let beside = std::path::Path::new("/srv/elevo.secrets-key");
    assert_eq!(config.secrets_key_file, beside);
    for file in ["/srv/elevo/key", "/fast/key", "key"] {
        let settings = [
            ("DATA_DIR", "/srv/elevo"),
            ("WORKSPACE_ROOT", "/fast"),
            ("SECRETS_KEY_FILE", file),
        ];
        let refused = read("", &settings).unwrap_err().to_string();
        assert!(refused.contains("SECRETS_KEY_FILE"), "{refused}");
    }
}

#[test]
fn the_domain_and_the_limits_of_ports_are_checked() {
    let read = |name: &str, text: &str| read("", &[(name, text)]);
    let domain = |text: &str| read("PORTS_DOMAIN", text).map(|config| config.ports_domain);
    for right in ["sandboxes.example.com", "localhost:7777", "box"] {
        assert_eq!(domain(right).unwrap().as_deref(), Some(right));
    }
    assert_eq!(domain("").unwrap(), None);
    for wrong in [
        "Box.test", "*.test", ".test", "a..b", "a:0", "a:b", "http://a", "a/b", "[::1]",
    ] {
        assert!(domain(wrong).is_err(), "{wrong}");
    }
    assert_eq!(
        read("PORT_REQUESTS", "200").unwrap().limits.port_requests,
        200
    );
    for wrong in ["0", "201", "many"] {
        assert!(read("PORT_REQUESTS", wrong).is_err(), "{wrong}");
    }
}
