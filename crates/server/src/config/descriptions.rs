//! The settings, with their descriptions.

/// Names of the settings in the environment, with their help texts. The file
/// has the same names in lower case.
pub(super) const SETTINGS: &[(&str, &str)] = &[
    ("DATA_DIR", "directory of all data [/var/lib/elevo]"),
    (
        "WORKSPACE_ROOT",
        "directory of the workspaces [DATA_DIR/workspaces]",
    ),
    (
        "SECRETS_KEY_FILE",
        "file with the key that encrypts variables and webhook secrets, outside of DATA_DIR; \
         created when first needed, and not in backups [DATA_DIR.secrets-key]",
    ),
    (
        "CATALOG_URL",
        "URL of a PostgreSQL database for the catalog, postgres://USER:PASSWORD@HOST:PORT/DATABASE, with \
         several hosts separated by commas; the host that can be written is used; \
         ?sslmode=verify-full&sslrootcert=FILE checks the server's certificate [a file in DATA_DIR]",
    ),
    (
        "CATALOG_DIRECT_URL",
        "URL of the same database without a pooler, for notifications; needed if CATALOG_URL is that \
         of a pooler in transaction mode [CATALOG_URL]",
    ),
    (
        "CATALOG_CONNECTIONS",
        "maximum connections to the database of the catalog; the server has two more for \
         notifications [16]",
    ),
    (
        "STORE_URL",
        "URL of a PostgreSQL database for the index of a store that several servers share, in the \
         form of CATALOG_URL, without a pooler; may be the same database. Needs CATALOG_URL and \
         S3_BUCKET [a directory in DATA_DIR]",
    ),
    (
        "STORE_CONNECTIONS",
        "maximum connections to the database of the store [16]",
    ),
    (
        "STORE_CACHE_SIZE",
        "maximum size of DATA_DIR/store-cache, which has files of the bucket; 0 for none [10g]",
    ),
    (
        "STORE_CACHE_MEMORY",
        "maximum size of the same cache in memory [256m]",
    ),
    (
        "STORE_FILE_GRACE",
        "seconds that an unused file stays in the bucket: at least the time to which its database may \
         be recovered from a backup [86400]",
    ),
    ("S3_BUCKET", "name of the S3 bucket of the store"),
    (
        "S3_PREFIX",
        "first part of the names in the bucket; each store needs its own",
    ),
    (
        "S3_ENDPOINT",
        "URL of the S3 service, such as http://127.0.0.1:8333 [AWS]",
    ),
    ("S3_REGION", "region of the bucket [us-east-1]"),
    (
        "S3_PATH_STYLE",
        "send the name of the bucket in the path, not in the host [true with S3_ENDPOINT]",
    ),
    (
        "S3_CA_FILE",
        "certificates of authorities, a PEM file, that are trusted besides those of the system",
    ),
    (
        "S3_ACCESS_KEY",
        "access key of the bucket [from S3_CREDENTIALS_FILE, else from the role of the machine]",
    ),
    ("S3_SECRET_KEY", "secret of the access key"),
    (
        "S3_CREDENTIALS_FILE",
        "file with the access key, in the form of ~/.aws/credentials; read again when it changes",
    ),
    ("S3_PROFILE", "section of S3_CREDENTIALS_FILE [default]"),
    (
        "S3_METADATA_URL",
        "URL of the service that has the credentials of the machine's role [that of AWS]",
    ),
    ("API_HOST", "address of the API [127.0.0.1]"),
    ("API_PORT", "port of the API, 0 for any [8080]"),
    (
        "METRICS_HOST",
        "address of health, readiness and metrics [127.0.0.1]",
    ),
    (
        "METRICS_PORT",
        "port of health, readiness and metrics, 0 for any [9090]",
    ),
    (
        "GRPC_HOST",
        "address for workspace agents that connect by TCP [127.0.0.1]",
    ),
    (
        "GRPC_PORT",
        "port for workspace agents that connect by TCP; by default, they use a Unix socket",
    ),
    (
        "ALLOW_PLAIN_HTTP",
        "listen beyond loopback without TLS [false]",
    ),
    ("TLS_CERT", "certificate chain, a PEM file"),
    ("TLS_KEY", "private key of the certificate, a PEM file"),
    (
        "PUBLIC_URL",
        "URL that clients use, if it differs because of a proxy",
    ),
    (
        "PORTS_DOMAIN",
        "domain whose hosts {port}-{sandbox} are ports of sandboxes, such as \
         sandboxes.example.com, with a port if clients need one [none]",
    ),
    (
        "TRUSTED_PROXIES",
        "addresses or networks of proxies, separated by commas; their X-Forwarded-For, \
         X-Forwarded-Proto and X-Forwarded-Host are trusted",
    ),
    (
        "ALLOWED_ORIGINS",
        "origins of web pages that may use the API, such as https://app.example.com, separated \
         by commas [none]",
    ),
    (
        "API_KEY",
        "a key for the first tenant, with every scope; at least 32 characters",
    ),
    (
        "DOCKER_HOST",
        "address of the container engine [unix:///var/run/docker.sock]",
    ),
    (
        "DOCKER_NETWORK",
        "network of sandboxes with `internet`: an existing bridge without traffic between \
         containers, or the name of the network that the server creates [elevo-…]",
    ),
    (
        "REGISTRY_AUTH_FILE",
        "a file like Docker's config.json, with credentials for registries [none]",
    ),
    (
        "AGENT_BINARY",
        "binary of the workspace agent [the one inside the server's binary, or next to it]",
    ),
    (
        "SHARE_DIR",
        "directory with the documentation and the image of the first template [../share/elevo from the server's binary]",
    ),
    (
        "SANDBOX_USER",
        "UID:GID of all processes in sandboxes; no person should use it [64000:64000; without root, the server's own]",
    ),
    (
        "SANDBOX_CONNECTIONS",
        "maximum connections of a sandbox at a time, 0 for no limit [512]",
    ),
    (
        "SANDBOX_NEW_CONNECTIONS",
        "maximum new connections of a sandbox per second; after idle time, those of ten seconds at once; 0 for no limit [50]",
    ),
    (
        "SANDBOX_NETWORK_RATE",
        "maximum MiB per second that a sandbox sends, and the same for receiving; 0 for no limit [64]",
    ),
    (
        "SANDBOX_DISK_RATE",
        "maximum MiB per second that a sandbox reads from a disk, and the same for writing; 0 for no limit [200]",
    ),
    (
        "SANDBOX_DISK_OPERATIONS",
        "maximum reads of a sandbox from a disk per second, and the same for writes; 0 for no limit [5000]",
    ),
    (
        "DEFAULT_NETWORK",
        "default network of sandboxes: none or internet [internet]",
    ),
    (
        "NETWORKS",
        "networks that sandboxes may use, separated by commas [none,internet]",
    ),
    (
        "DEFAULT_RUNTIME",
        "container runtime, such as runsc [the default of the engine]",
    ),
    (
        "RUNTIMES",
        "other runtimes that sandboxes may use, separated by commas [none]",
    ),
    (
        "WORKSPACE_PROVIDER",
        "provider of workspaces: overlay, reflink or copy [the best that works]",
    ),
    (
        "POOL_SIZE",
        "size of the file of a pool of uppers, if WORKSPACE_ROOT is not on btrfs [100g]",
    ),
    (
        "WARM_POOL",
        "warm pools: TEMPLATE=COUNT [network=…] [runtime=…]; … [none]",
    ),
    (
        "GC_INTERVAL",
        "seconds between garbage collections, 0 for never [86400]",
    ),
    (
        "GC_DISK_PERCENT",
        "disk usage in percent that starts a garbage collection at once [85]",
    ),
    (
        "GC_KEEP_UNNAMED",
        "seconds that unneeded snapshots and versions are kept; at least 3600 [7776000]",
    ),
    (
        "DISK_FULL_PERCENT",
        "disk usage in percent above which requests that need space are rejected [95]",
    ),
    (
        "QUARANTINE_KEEP",
        "seconds that workspaces without a row in the catalog are kept [604800]",
    ),
    ("EVENTS_KEEP", "seconds that events are kept [604800]"),
    (
        "EXPIRED_KEEP",
        "seconds that a parked workspace is kept [604800]",
    ),
    (
        "AUDIT_COMMANDS",
        "part of a command that the audit log records: full, program or none [full]",
    ),
    (
        "AUDIT_KEEP",
        "seconds that the audit log is kept, 0 for forever [0]",
    ),
    (
        "WEBHOOK_URL",
        "URL that all events of this server are sent to",
    ),
    (
        "WEBHOOK_SECRET",
        "secret that signs these deliveries, by HMAC-SHA256",
    ),
    (
        "WEBHOOK_TIMEOUT",
        "seconds that a receiver has to respond [5]",
    ),
    ("WEBHOOK_RETRY", "number of retries of a delivery [3]"),
    (
        "WEBHOOK_ALLOW_PRIVATE",
        "send to loopback and private addresses as well [false]",
    ),
    (
        "DEFAULT_SANDBOX_TIMEOUT",
        "default lifetime of a sandbox in seconds [3600]",
    ),
    (
        "MAX_SANDBOX_LIFETIME",
        "maximum lifetime of a sandbox in seconds, including extensions [86400]",
    ),
    (
        "MAX_SANDBOX_EXTENSION",
        "maximum seconds that one request adds to a lifetime [3600]",
    ),
    ("MAX_SANDBOXES", "maximum sandboxes on this server [100]"),
    (
        "MAX_CONCURRENT_CREATIONS",
        "maximum sandboxes that are created at the same time [10]",
    ),
    ("DEFAULT_CPU", "default processors of a sandbox [2]"),
    ("MAX_CPU", "maximum processors of a sandbox [all]"),
    ("DEFAULT_MEMORY", "default memory of a sandbox [2g]"),
    ("MAX_MEMORY", "maximum memory of a sandbox [16g]"),
    ("DEFAULT_DISK", "default disk of a sandbox [10g]"),
    ("MAX_DISK", "maximum disk of a sandbox [100g]"),
    ("DEFAULT_PIDS", "default processes of a sandbox [512]"),
    ("MAX_PIDS", "maximum processes of a sandbox [4096]"),
    (
        "MAX_TERMINALS",
        "maximum terminals of a sandbox, up to 20 [5]",
    ),
    (
        "DEFAULT_COMMAND_TIMEOUT",
        "default time-out of a command in milliseconds [60000]",
    ),
    (
        "TERMINAL_PATIENCE",
        "seconds that a terminal without a client is kept [300]",
    ),
    (
        "PORT_TIMEOUT",
        "seconds that a program behind a port has to begin its response [120]",
    ),
    (
        "PORT_REQUESTS",
        "maximum requests to the ports of a sandbox at a time, up to 200; a tenant has four times \
         as many [128]",
    ),
    (
        "START_TIMEOUT",
        "seconds that the start of a sandbox waits for its workspace agent [60]",
    ),
    (
        "AGENT_TIMEOUT",
        "seconds after which a sandbox whose workspace agent is not connected gets the state \
         error [90]",
    ),
    (
        "STOP_GRACE",
        "seconds that requests and streams have to end when the server stops [30]",
    ),
    (
        "MAX_CONNECTIONS",
        "maximum connections to the API at a time [1024]",
    ),
    (
        "OUTPUT_BUFFER",
        "output that the workspace agent keeps for each process, 64k to 64m [2m]",
    ),
    (
        "RATE_CREATES",
        "sandboxes that a key may create per minute, by default [60]",
    ),
    (
        "RATE_COMMANDS",
        "commands that a key may run per minute, by default [100]",
    ),
    (
        "RATE_REQUESTS",
        "other requests of a key per minute, by default [1000]",
    ),
    (
        "KEY_SANDBOXES",
        "sandboxes of a key at a time, by default [100]",
    ),
    (
        "TENANT_SANDBOXES",
        "sandboxes of a tenant at a time [the limit of the server]",
    ),
    (
        "TENANT_MEMORY",
        "memory of all sandboxes of a tenant [no limit]",
    ),
    (
        "TENANT_DISK",
        "disk of all sandboxes of a tenant [no limit]",
    ),
    (
        "TENANT_STORED",
        "size of all projects and snapshots of a tenant, compressed, with shared content counted once [no limit]",
    ),
    ("TENANT_WORKSPACES", "workspaces of a tenant [1000]"),
    ("TENANT_PROJECTS", "projects of a tenant [1000]"),
    (
        "RATE_TENANT",
        "requests of all keys of a tenant per minute [no limit]",
    ),
    (
        "MAX_ARCHIVE",
        "maximum size of an archive that a client sends [1g]",
    ),
    (
        "MAX_FILE",
        "maximum size of a single file that a client uploads [5g]",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "URL of a collector of traces, for OTLP over HTTP, such as http://127.0.0.1:4318 [none]",
    ),
    (
        "TRACE_SAMPLE",
        "fraction of the traces started by this server that is exported, 0 to 1 [1]",
    ),
    ("RUST_LOG", "log filter [info]"),
];

/// Returns the settings with their help texts.
pub fn settings() -> &'static [(&'static str, &'static str)] {
    SETTINGS
}
