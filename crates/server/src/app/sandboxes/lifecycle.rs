//! Stops, starts, extends and deletes sandboxes.

use crate::app::access::here::check_node;
use crate::app::access::principal::Principal;
use crate::app::requests::once::Once;
use crate::app::sandboxes::rows::container_of;
use crate::app::sandboxes::spec::{self};
use crate::app::sandboxes::{Sandboxes, failed};
use crate::failure::{Failure, Result};
use crate::platform::clock;
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{Sandbox, SandboxChange};
use elevo_core::{ErrorCode, SandboxId, SandboxState, Timestamp};
use std::sync::Arc;
use std::time::Duration;

impl Sandboxes {
    /// Deletes a sandbox. Its workspace is deleted as well or, with
    /// `keep_workspace`, parked.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
        keep_workspace: bool,
    ) -> Result<()> {
        who.needs(Scope::SandboxesWrite)?;
        let row = self.visible(who, id).await?;
        // Before the mark: its server deletes what is marked.
        check_node(self.node, "sandbox", id, row.node)?;
        let mark = SandboxChange {
            removing: Some(true),
            keep_workspace: Some(keep_workspace),
            ..SandboxChange::default()
        };
        let marked = self
            .catalog
            .change_sandbox(who.tenant, id, &mark, clock::now())
            .await;
        let sandbox = marked.map_err(|error| match error {
            elevo_catalog::Error::NotFound { .. } => Failure::no_sandbox(id),
            error => error.into(),
        })?;
        // A separate task, so that the deletion is completed even if the
        // client disconnects.
        let app = self.clone();
        let removing = tokio::spawn(async move { app.starts.remove(&sandbox).await });
        removing.await.map_err(|error| Failure::internal(&error))?
    }

    pub(crate) async fn batch_delete(
        self: &Arc<Self>,
        who: &Principal,
        wish: api::BatchDelete,
        once: Once,
    ) -> Result<api::BatchDeleted> {
        who.needs(Scope::SandboxesWrite)?;
        if wish.ids.len() > 50 {
            return Err(Failure::invalid("`ids` has more than 50 entries"));
        }
        let (known, is_again) = self.to_delete(who, &wish.ids, &once).await?;
        let keep = wish.keep_workspace;
        let deletions = wish.ids.iter().map(|text| async {
            let deleted = match known.get(text) {
                Some(id) => self.delete(who, id, keep).await,
                None => Err(Failure::no_sandbox(text)),
            };
            (text.clone(), deleted)
        });
        let mut outcome = api::BatchDeleted::default();
        for (text, deleted) in futures::future::join_all(deletions).await {
            let is_known = known.contains_key(&text);
            match deleted {
                Ok(()) => outcome.succeeded.push(text),
                // An earlier attempt of this request has deleted the sandbox.
                Err(failure)
                    if is_again && is_known && failure.code == ErrorCode::SandboxNotFound =>
                {
                    outcome.succeeded.push(text);
                }
                Err(failure) => outcome.failed.push(failed(text, failure)),
            }
        }
        Ok(outcome)
    }

    /// Stops the processes and the container of a sandbox. Its workspace stays.
    pub(crate) async fn stop(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
    ) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        let sandbox = self.visible(who, id).await?;
        if sandbox.state == SandboxState::Stopped {
            return spec::out(&sandbox);
        }
        let app = self.clone();
        let stopping = tokio::spawn(async move { app.stop_held(&sandbox).await });
        let stopped = stopping
            .await
            .map_err(|error| Failure::internal(&error))??;
        spec::out(&stopped)
    }

    async fn stop_held(&self, sandbox: &Sandbox) -> Result<Sandbox> {
        let id = &sandbox.id;
        let _held = self.locks.hold(id).await;
        let from = [
            SandboxState::Running,
            SandboxState::Starting,
            SandboxState::Error,
        ];
        let sandbox = self
            .starts
            .change(sandbox, &from, SandboxState::Stopping, None)
            .await?;
        if let Some(link) = self.links.get(id) {
            // An error is ignored: the container is killed below.
            let _ = link.shut_down(Duration::from_secs(5)).await;
        }
        if let Some(container) = container_of(&sandbox)
            && let Err(error) = self.runtime.kill(&container).await
        {
            let failure = Failure::from(error);
            let cause = failure.summary();
            tracing::warn!(sandbox = %id, cause, "cannot stop a sandbox");
            let reason = Some(failure.message.clone().into());
            self.starts
                .change(
                    &sandbox,
                    &[SandboxState::Stopping],
                    SandboxState::Error,
                    reason,
                )
                .await?;
            return Err(failure);
        }
        self.links.forget(id);
        self.starts
            .change(
                &sandbox,
                &[SandboxState::Stopping],
                SandboxState::Stopped,
                None,
            )
            .await
    }

    /// Starts a sandbox that was stopped or has failed.
    pub(crate) async fn start(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
    ) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        let sandbox = self.visible(who, id).await?;
        if sandbox.state == SandboxState::Running {
            return spec::out(&sandbox);
        }
        let app = self.clone();
        let starting =
            tokio::spawn(async move { app.starts.start_again(sandbox.tenant, &sandbox.id).await });
        let started = starting
            .await
            .map_err(|error| Failure::internal(&error))??;
        spec::out(&started)
    }

    pub(crate) async fn extend(
        &self,
        who: &Principal,
        id: &SandboxId,
        wish: api::Extend,
        once: Once,
    ) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        let _held = self.locks.hold(id).await;
        let sandbox = self.visible(who, id).await?;
        // A retry must not extend a second time, so the first attempt records
        // the new expiry.
        if let Some((seconds, nanos)) = once.noted() {
            let noted = Timestamp::new(seconds, nanos).unwrap_or(sandbox.expires);
            return self.expire_at(&sandbox, noted.max(sandbox.expires)).await;
        }
        let limits = &self.config.limits;
        let most = limits.max_extension.as_secs();
        if wish.seconds == 0 || u64::from(wish.seconds) > most {
            let message = format!("`seconds` must be 1 to {most}");
            return Err(Failure::new(ErrorCode::LifetimeExceeded, message).about("limit", most));
        }
        let expires = clock::after(sandbox.expires, Duration::from_secs(wish.seconds.into()));
        self.check_lifetime(&sandbox, expires)?;
        once.note(&(expires.seconds(), expires.nanos())).await?;
        self.expire_at(&sandbox, expires).await
    }

    /// Rejects an expiry beyond the maximum lifetime of a sandbox.
    pub(super) fn check_lifetime(&self, sandbox: &Sandbox, expires: Timestamp) -> Result<()> {
        let last = clock::after(sandbox.created, self.config.limits.max_lifetime);
        if expires <= last {
            return Ok(());
        }
        let left = last
            .seconds()
            .saturating_sub(sandbox.expires.seconds())
            .max(0);
        let message = format!(
            "this sandbox can be extended at most until {}",
            clock::text(last)
        );
        let failure = Failure::new(ErrorCode::LifetimeExceeded, message);
        Err(failure.about("limit", left))
    }

    async fn expire_at(&self, sandbox: &Sandbox, expires: Timestamp) -> Result<api::Sandbox> {
        let change = SandboxChange {
            expires: Some(expires),
            ..SandboxChange::default()
        };
        let Sandbox { tenant, id, .. } = sandbox;
        let changed = self
            .catalog
            .change_sandbox(*tenant, id, &change, clock::now());
        spec::out(&changed.await?)
    }
}
