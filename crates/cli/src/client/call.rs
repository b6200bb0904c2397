//! A command that sends requests to a server.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::Method;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::client::find::Reach;
use crate::client::http::Client;
use crate::errors::{Exit, Report};
use crate::output::notes::print_note;
use crate::output::progress::{self, Watch};
use crate::output::{Output, reader_left};

/// A command that runs against a server.
pub(crate) struct Call {
    pub(crate) client: Client,
    pub(crate) output: Output,
    pub(crate) quiet: bool,
    runtime: Runtime,
}

/// Progress of an operation: finished things and bytes.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) things: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// Finds the server and runs a command.
pub(crate) fn run_on_server(
    reach: &Reach,
    work: impl FnOnce(&mut Call) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    run_with_client(reach.client()?, reach.json, reach.quiet, work)
}

/// Runs a command with a given client.
pub(crate) fn run_with_client(
    client: Client,
    json: bool,
    quiet: bool,
    work: impl FnOnce(&mut Call) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let mut call = Call {
        client,
        output: Output::new(json),
        quiet,
        runtime: runtime()?,
    };
    let result = work(&mut call).and_then(|code| {
        call.output.finish()?;
        Ok(code)
    });
    // Do not wait for threads: one may still block on reading input.
    call.runtime.shutdown_background();
    match result {
        Err(error) if reader_left(&error) => Ok(Exit::Done),
        other => other,
    }
}

/// Creates a runtime with two threads, so that input, output and signals run
/// concurrently.
fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

impl Call {
    /// Waits for a response.
    pub(crate) fn wait<T>(&self, asking: impl Future<Output = T>) -> T {
        self.runtime.block_on(asking)
    }

    /// Runs a task in the background.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Like [`Self::wait`], with a progress bar.
    pub(crate) fn watch<T>(&self, doing: &'static str, asking: impl Future<Output = T>) -> T {
        self.watch_done(doing, "", &Done::default(), asking)
    }

    /// Like [`Self::watch`], with the numbers of finished things and bytes.
    pub(crate) fn watch_done<T>(
        &self,
        doing: &'static str,
        things: &'static str,
        done: &Done,
        asking: impl Future<Output = T>,
    ) -> T {
        let watch = Watch {
            doing,
            things,
            total: None,
            counts: || {
                let (things, bytes) = (&done.things, &done.bytes);
                (
                    things.load(Ordering::Relaxed),
                    bytes.load(Ordering::Relaxed),
                )
            },
        };
        progress::watch(self.quiet, watch, || self.wait(asking))
    }

    /// Deletes resources of one kind by name, and prints the result of each.
    /// Returns the exit code of [`each`](Self::each).
    pub(crate) fn delete_all(
        &mut self,
        kind: &str,
        names: &[String],
        done: &str,
    ) -> anyhow::Result<Exit> {
        self.each(names, |call, name| call.delete(kind, name, done))
    }

    /// Deletes a resource and prints its name.
    pub(crate) fn delete(&mut self, kind: &str, name: &str, done: &str) -> anyhow::Result<()> {
        let path = ["api", "v1", kind, name];
        let request = self.client.request(Method::DELETE, &path);
        self.wait(self.client.done(request))?;
        match self.output.is_json() {
            true => {
                let shape = json!({ (done.to_lowercase()): name });
                self.output.value(&shape)?;
            }
            false => self.output.line(format!("{done} {name}"))?,
        }
        Ok(())
    }

    /// Calls `remove` for each name. Reports a failure and continues with the
    /// others. Returns the exit code of the first error.
    pub(crate) fn each(
        &mut self,
        names: &[String],
        mut remove: impl FnMut(&mut Self, &str) -> anyhow::Result<()>,
    ) -> anyhow::Result<Exit> {
        let mut first = None;
        for name in names {
            match remove(self, name) {
                Ok(()) => {}
                Err(error) if reader_left(&error) => return Err(error),
                Err(error) => {
                    let failed = self.report(error.context(not_removed(name)))?;
                    first.get_or_insert(failed);
                }
            }
        }
        Ok(first.unwrap_or(Exit::Done))
    }

    /// Reports one error of several. Returns its exit code.
    pub(crate) fn report(&mut self, error: anyhow::Error) -> anyhow::Result<Exit> {
        // Earlier output must appear before the error.
        self.output.finish()?;
        let report = Report::new(&error);
        report.print(self.output.is_json());
        Ok(report.exit)
    }

    /// Prints a note to standard error, unless the output is quiet or JSON.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.output.is_json() {
            self.output.flush();
            print_note(text);
        }
    }
}

/// The context of an error that prevented a deletion.
pub(crate) fn not_removed(name: &str) -> String {
    format!(
        "cannot delete `{}`",
        crate::output::format::first_line(name)
    )
}
