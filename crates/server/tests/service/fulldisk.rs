//! A full disk, against the real server on a small loop disk: the server rejects
//! growth, accepts requests that free space, and loses nothing.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{KEY, Service, eventually};
use crate::shared::{file, merge, project, workspace, write};

/// An ext4 disk in a file, mounted where a server keeps its data.
struct SmallDisk {
    mounted: PathBuf,
    _image: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(path: &Path, bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("disk.img");
        File::create(&image).unwrap().set_len(bytes).unwrap();
        std::fs::create_dir_all(path).unwrap();
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-m", "0"])
            .arg(&image)
            .status();
        assert!(made.unwrap().success());
        let mounted = Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, path])
            .status();
        assert!(mounted.unwrap().success());
        Self {
            mounted: path.into(),
            _image: directory,
        }
    }

    /// Returns the free space in bytes.
    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.mounted).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// Returns the free space below which the server rejects new data.
    fn kept(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.mounted).unwrap();
        disk.f_blocks * disk.f_frsize / 20
    }

    fn ballast(&self) -> PathBuf {
        self.mounted.join("ballast")
    }

    /// Fills the current free space with a file. The file does not take the parts
    /// of the reserve that the server gives up at the same time.
    fn fill(&self) {
        self.fill_until(0);
    }

    /// Extends a file until so many bytes are free.
    fn fill_until(&self, left: u64) {
        let mut options = File::options();
        let file = options.create(true).append(true).open(self.ballast());
        let file = file.unwrap();
        let mut length = file.metadata().unwrap().len();
        let mut free = self.free().saturating_sub(left);
        let mut step = 1 << 20;
        while step >= 4096 {
            let flags = rustix::fs::FallocateFlags::empty();
            if step <= free && rustix::fs::fallocate(&file, flags, length, step).is_ok() {
                (free, length) = (free - step, length + step);
            } else {
                step /= 2;
            }
        }
    }

    fn clear(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The service may have unmounted it.
        let mut unmount = Command::new("umount");
        unmount.arg("-l").arg(&self.mounted).stderr(Stdio::null());
        let _ = unmount.status();
    }
}

/// Expects the complaints of a server whose disk becomes full. Which of them it
/// logs depends on chance.
fn expect_full_disk(service: &Service) {
    service.expect_warnings();
    for part in [
        "INSUFFICIENT_STORAGE",
        "STORAGE_FAILED",
        "AGENT_UNREACHABLE",
        "the disk was full",
        "cannot remount the pool of uppers",
        // The causes of work that the server retries until the pool is writable.
        "read-only filesystem",
        "no storage space",
    ] {
        service.expect_complaint(part);
    }
}

/// A tenant of a server, by its key.
struct Tenant<'a> {
    service: &'a Service,
    key: String,
}

impl Tenant<'_> {
    async fn call(&self, method: Method, path: &str, body: Option<Value>, status: u16) -> Value {
        let called = self
            .service
            .expect_as(&self.key, method, path, body, status);
        called.await
    }

    async fn sandbox(&self) -> String {
        let wish = Some(json!({"template": "base"}));
        let made = self
            .call(Method::POST, "/api/v1/sandboxes", wish, 201)
            .await;
        made["id"].as_str().unwrap().to_owned()
    }

    async fn run(&self, id: &str, command: &str) -> Value {
        let path = format!("/api/v1/sandboxes/{id}/process/run");
        let wish = Some(json!({"command": command, "timeout": 120_000}));
        self.call(Method::POST, &path, wish, 200).await
    }

    async fn output(&self, id: &str, command: &str) -> String {
        let result = self.run(id, command).await;
        assert_eq!(result["exitCode"], 0, "{command}: {result}");
        result["stdout"].as_str().unwrap().to_owned()
    }

    async fn delete(&self, id: &str) {
        let path = format!("/api/v1/sandboxes/{id}");
        self.call(Method::DELETE, &path, None, 204).await;
    }

    /// Deletes a sandbox on a full disk: its pool may have become read-only, and
    /// is then mounted again.
    async fn delete_in_the_end(&self, id: &str) {
        let url = format!("{}/api/v1/sandboxes/{id}", self.service.url);
        eventually("the sandbox is deleted", async || {
            let request = self.service.http.delete(&url).bearer_auth(&self.key);
            let status = request.send().await.unwrap().status();
            matches!(status.as_u16(), 204 | 404)
        })
        .await;
    }

    /// A step of a project that adds a file.
    async fn land(&self, project: &str, name: &str) {
        let path = format!("/api/v1/projects/{project}/apply");
        let change = json!({"files": [{"path": name, "content": name}]});
        self.call(Method::POST, &path, Some(change), 200).await;
    }

    async fn parked(&self) -> Vec<String> {
        let path = "/api/v1/workspaces?state=parked";
        let page = self.call(Method::GET, path, None, 200).await;
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// An archive of incompressible bytes.
fn archive(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut content);
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes as u64);
    header.set_mode(0o644);
    builder
        .append_data(&mut header, "file", &content[..])
        .unwrap();
    builder.into_inner().unwrap()
}

/// Stores archives until the server rejects one.
async fn upload_until_refused(service: &Service) -> Value {
    for seed in 0.. {
        let request = service.request(Method::POST, "/api/v1/snapshots");
        let answer = request.body(archive(seed, 32 << 20)).send().await.unwrap();
        if answer.status() != 201 {
            assert_eq!(answer.status(), 507);
            return answer.json().await.unwrap();
        }
    }
    unreachable!("a disk has an end")
}

/// Sets the expiry of a sandbox to the past.
async fn expired(service: &Service, id: &str) {
    let statement = format!("update sandboxes set expires = 1 where id = '{id}'");
    let catalog = service.data.join("catalog.db");
    eventually("the catalog takes a change", async || {
        let mut sqlite = Command::new("sqlite3");
        sqlite.args(["-cmd", ".timeout 10000"]);
        let changed = sqlite.arg(&catalog).arg(&statement).status();
        changed.unwrap().success()
    })
    .await;
}

/// A server whose disk the first tenant fills, with work of another tenant on it.
/// The service is dropped before its disk.
struct Shared {
    service: Service,
    disk: SmallDisk,
    /// A sandbox of the first tenant.
    filler: String,
    /// The key, a project and sandboxes of the other tenant.
    key: String,
    project: String,
    ids: Vec<String>,
}

impl Shared {
    async fn make() -> Self {
        let mut service = Service::new_with_docker(&[("DEFAULT_DISK", "2g")]);
        expect_full_disk(&service);
        let disk = SmallDisk::mount(&service.data, 2 << 30);
        service.run();
        let template = json!({"name": "base", "image": service.image()});
        service.post("/api/v1/templates", template).await;
        let other = json!({"name": "other"});
        let other = service.post("/api/v1/tenants", other).await;
        let mut shared = Self {
            filler: service.sandbox().await,
            service,
            disk,
            key: other["secret"].as_str().unwrap().to_owned(),
            project: String::new(),
            ids: Vec::new(),
        };
        let other = shared.other();
        let wish = Some(json!({"name": "theirs"}));
        let made = other.call(Method::POST, "/api/v1/projects", wish, 201);
        let project = made.await["id"].as_str().unwrap().to_owned();
        other.land(&project, "one").await;
        let mut ids = Vec::new();
        for _ in 0..4 {
            let id = other.sandbox().await;
            other.output(&id, "echo work > file; sync file").await;
            ids.push(id);
        }
        shared.project = project;
        shared.ids = ids;
        shared
    }

    fn other(&self) -> Tenant<'_> {
        Tenant {
            service: &self.service,
            key: self.key.clone(),
        }
    }

    fn owner(&self) -> Tenant<'_> {
        Tenant {
            service: &self.service,
            key: KEY.to_owned(),
        }
    }

    /// Fills the disk as far as one tenant can, by uploads and by a command. A
    /// file occupies most of the disk, so that a slow disk is filled soon too.
    async fn fill(&self) {
        self.disk.fill_until(self.disk.kept() + (96 << 20));
        let refused = upload_until_refused(&self.service).await;
        let error = &refused["error"];
        assert_eq!(error["name"], "INSUFFICIENT_STORAGE", "{refused}");
        let remedy = error["remediation"].as_str().unwrap();
        assert!(remedy.contains("POST /api/v1/gc"), "{remedy}");
        self.disk.fill_until(self.disk.kept() + (4 << 20));
        // The pauses give the server time to limit the workspace. Another test is
        // about a command that is faster.
        let command = "while head -c 262144 /dev/zero >> big && sync big; do sleep 0.1; done";
        let filled = self.owner().run(&self.filler, command).await;
        let said = filled["stderr"].as_str().unwrap();
        assert!(said.contains("Disk quota exceeded"), "{filled}");
        assert!(self.disk.free() > 0, "the mark holds");
    }

    /// Checks that the other tenant gets no sandbox.
    async fn refuses_a_sandbox(&self) {
        let wish = json!({"template": "base", "workspace": {"project": {"id": self.project}}});
        let other = self.other();
        let refused = other.call(Method::POST, "/api/v1/sandboxes", Some(wish), 507);
        assert_eq!(refused.await["error"]["name"], "INSUFFICIENT_STORAGE");
    }

    /// Lets a sandbox expire, and waits until so many are parked.
    async fn parks(&self, id: &str, count: usize) {
        expired(&self.service, id).await;
        eventually("the work of an expired sandbox is parked", async || {
            let parked = self.other().parked().await;
            parked.len() == count && parked.iter().any(|parked| parked == id)
        })
        .await;
    }

    /// Checks that requests that free space work on the full disk, also after a
    /// stop and after a kill of the server.
    async fn frees_space(&mut self) {
        let ids = self.ids.clone();
        self.refuses_a_sandbox().await;
        self.other().delete_in_the_end(&ids[0]).await;
        self.parks(&ids[1], 1).await;
        let collecting = self
            .service
            .expect(Method::POST, "/api/v1/gc", Some(json!({})), 200);
        let collected = collecting.await;
        assert_eq!(collected["failedTenants"], Value::Null, "{collected}");
        self.service.stop();
        self.service.run();
        self.other().delete_in_the_end(&ids[2]).await;
        self.service.kill();
        self.service.run();
        self.parks(&ids[3], 2).await;
        self.refuses_a_sandbox().await;
    }

    /// Frees the disk, and waits until the server has noticed it.
    async fn clear(&self) {
        self.disk.clear();
        self.service.delete(&self.filler).await;
        eventually("the disk has room", async || {
            let ready = reqwest::get(format!("{}/ready", self.service.metrics)).await;
            let ready: Value = ready.unwrap().json().await.unwrap();
            let mut checks = ready["checks"].as_array().unwrap().iter();
            checks.any(|check| check["name"] == "disk" && check["ok"] == true)
        })
        .await;
    }

    /// Checks that everything of the other tenant works, and that nothing is lost.
    async fn has_lost_nothing(&self) {
        let (other, service) = (self.other(), &self.service);
        other.land(&self.project, "two").await;
        for name in ["one", "two"] {
            let path = format!("/api/v1/projects/{}/files?path={name}", self.project);
            let answer = service.http.get(format!("{}{path}", service.url));
            let answer = answer.bearer_auth(&other.key).send().await.unwrap();
            assert_eq!(answer.text().await.unwrap(), name);
        }
        for id in [&self.ids[1], &self.ids[3]] {
            let wish = Some(json!({"template": "base", "workspace": {"existing": id}}));
            let made = other.call(Method::POST, "/api/v1/sandboxes", wish, 201);
            let made = made.await;
            let resumed = made["id"].as_str().unwrap();
            assert_eq!(other.output(resumed, "cat file").await, "work\n");
            other.output(resumed, "echo more > another").await;
            other.delete(resumed).await;
        }
    }
}

#[tokio::test]
async fn a_disk_that_one_tenant_fills_can_be_left() {
    let mut shared = Shared::make().await;
    shared.fill().await;
    // A file takes the rest of the disk.
    shared.disk.fill();
    eventually("the reserve is used", async || shared.disk.free() > 0).await;
    shared.frees_space().await;
    shared.clear().await;
    shared.has_lost_nothing().await;
    shared.service.stop();
    let audit = shared.service.data.join("audit");
    let report = elevo_audit::verify(&audit, &[], |_| {}).unwrap();
    assert_eq!(report.problems, vec![]);
}

/// The command is faster than the server's checks of the disk, so the pools on it
/// may become read-only.
#[tokio::test]
async fn a_disk_that_a_command_fills_at_once_is_left_by_deleting_its_sandbox() {
    let disk;
    let mut service = Service::new_with_docker(&[("DEFAULT_DISK", "2g")]);
    expect_full_disk(&service);
    disk = SmallDisk::mount(&service.data, 1 << 30);
    service.run();
    let template = json!({"name": "base", "image": service.image()});
    service.post("/api/v1/templates", template).await;
    let other = json!({"name": "other"});
    let other = service.post("/api/v1/tenants", other).await;
    let key = other["secret"].as_str().unwrap().to_owned();
    let other = Tenant {
        service: &service,
        key,
    };
    let theirs = other.sandbox().await;
    other.output(&theirs, "echo work > file; sync file").await;
    // The pool of the other tenant has to write while the disk is full.
    let writing = "(while :; do date > tick; sync tick; sleep 0.02; done) >/dev/null 2>&1 &";
    other.output(&theirs, writing).await;
    let filler = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{filler}/process/run");
    let wish = json!({"command": "dd if=/dev/zero of=big bs=1M count=1900 conv=fsync"});
    let filling = service.request(Method::POST, &path).json(&wish).send();
    // The response is lost if the pool has to be mounted again.
    let _ = filling.await.unwrap();
    disk.fill();

    let owner = Tenant {
        service: &service,
        key: KEY.to_owned(),
    };
    owner.delete_in_the_end(&filler).await;
    disk.clear();
    let path = format!("/api/v1/sandboxes/{theirs}");
    eventually("the other tenant goes on", async || {
        let row = other.call(Method::GET, &path, None, 200).await;
        if row["state"] == "error" {
            let start = format!("{path}/start");
            let start = service.http.post(format!("{}{start}", service.url));
            let _ = start.bearer_auth(&other.key).send().await.unwrap();
            return false;
        }
        let wish = json!({"command": "cat file && echo more > second && sync second"});
        let run = service
            .http
            .post(format!("{}{path}/process/run", service.url));
        let run = run.bearer_auth(&other.key).json(&wish).send().await;
        let result: Value = run.unwrap().json().await.unwrap();
        result["exitCode"] == 0 && result["stdout"] == "work\n"
    })
    .await;
    eventually("there is room for another", async || {
        let request = service
            .http
            .post(format!("{}/api/v1/sandboxes", service.url));
        let request = request.bearer_auth(&other.key);
        let answer = request.json(&json!({"template": "base"})).send().await;
        answer.unwrap().status() == 201
    })
    .await;
}

#[tokio::test]
async fn an_archive_beyond_the_limit_of_a_workspace_is_rejected() {
    let service = Service::start_without_engine(&[]);
    let id = project(&service, json!({}), &[("page", "first\n")]).await;
    let ws = workspace(&service, json!({"project": id, "disk": "64m"})).await;
    let path = format!("/api/v1/workspaces/{}/archive", ws.id);
    let request = service.request(Method::PUT, &path);
    let response = request.body(archive(1, 96 << 20)).send().await.unwrap();
    let error: Value = response.json().await.unwrap();
    assert_eq!(error["error"]["name"], "DISK_FULL", "{error}");
}

/// A remount stands in for the kernel, which makes a pool read-only when its file
/// cannot grow.
#[tokio::test]
async fn a_pool_that_became_read_only_is_mounted_again() {
    let service = Service::start_without_engine(&[]);
    service.expect_complaint("the disk was full");
    // An operation may hold the lock of the workspace; the next check retries.
    service.expect_complaint("cannot remount the pool of uppers");
    let id = project(&service, json!({}), &[("page", "first\n")]).await;
    let wish = json!({"project": id, "disk": "64m"});
    let ws = workspace(&service, wish).await;
    write(&ws, "kept", "kept\n");
    File::open(ws.path.join("kept"))
        .unwrap()
        .sync_all()
        .unwrap();
    let mounts = service.mounts();
    let pool = mounts.iter().find(|mount| mount.ends_with("/uppers"));
    let mut remount = Command::new("mount");
    remount.args(["-o", "remount,ro"]).arg(pool.unwrap());
    assert!(remount.status().unwrap().success());
    let written = std::fs::write(ws.path.join("more"), "more\n");
    assert!(written.is_err(), "the pool is read-only");

    eventually("the pool is mounted again", async || {
        service.logged("the tenant's workspaces are writable again")
    })
    .await;
    // The workspace is mounted when it is used.
    let merged = merge(&service, &ws).await;
    assert_eq!(merged["landedCount"], 1, "{merged}");
    write(&ws, "more", "more\n");
    merge(&service, &ws).await;
    for name in ["kept", "more"] {
        let found = file(&service, &id, name).await;
        assert_eq!(found.unwrap(), format!("{name}\n"));
    }
}
