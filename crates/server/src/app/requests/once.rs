//! The idempotency of a request, as the services see it: derived ids and notes.

use crate::app::requests::{AtWork, hash};
use crate::failure::{Failure, Result};
use crate::platform::clock;
use elevo_catalog::{Catalog, RequestRun};
use elevo_core::Id;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The idempotency of a request. A service derives the ids of new resources from
/// it and records notes in it, so that a retry finds these resources. The default
/// is a request without an `Idempotency-Key`: its ids are random, and notes are
/// not recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Once(pub(super) Option<Arc<Request>>);

/// One attempt of a request with an `Idempotency-Key`.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) catalog: Arc<dyn Catalog>,
    pub(super) at_work: Arc<AtWork>,
    pub(super) run: RequestRun,
    /// The random id of the request, the same in every attempt.
    pub(super) id: String,
    /// True for a retry.
    pub(super) is_again: bool,
    pub(super) note: Mutex<Note>,
}

/// The notes of a request.
#[derive(Debug, Default)]
pub(super) struct Note {
    /// The id or state that a retry needs, as JSON. It is recorded in the catalog
    /// before the resource is created.
    pub(super) made: Option<String>,
    /// True if `made` is the id of a command, whose output is not stored.
    pub(super) is_command: bool,
    /// True if the response is not stored, so that the row can be deleted: the
    /// request was a dry run, or its response is a secret.
    pub(super) is_unstored: bool,
}

impl Once {
    pub(super) fn note_of(request: &Request) -> MutexGuard<'_, Note> {
        request.note.lock()
    }

    /// Returns true if the request has an `Idempotency-Key`.
    pub(crate) fn is_keyed(&self) -> bool {
        self.0.is_some()
    }

    /// Returns true for a retry: an earlier attempt may have created resources.
    pub(crate) fn is_again(&self) -> bool {
        self.0.as_ref().is_some_and(|request| request.is_again)
    }

    /// Returns the id for the only resource that the request creates.
    pub(crate) fn id<T: Id>(&self) -> T {
        T::from_bytes(&self.bytes())
    }

    /// Returns the name for the only command or terminal that the request starts.
    pub(crate) fn name(&self, prefix: &str) -> String {
        match &self.0 {
            Some(request) => format!("{prefix}{}", request.id),
            None => clock::name(prefix),
        }
    }

    /// Returns the id for one of several resources that the request creates.
    pub(crate) fn id_of<T: Id>(&self, number: u32) -> T {
        let Some(request) = &self.0 else {
            return clock::id();
        };
        let number = number.to_le_bytes();
        let bytes = hash("id", [request.id.as_bytes(), &number[..]]);
        T::from_bytes(&first_half(bytes))
    }

    /// Returns the binary id for the only resource that the request creates.
    pub(crate) fn bytes(&self) -> [u8; 16] {
        match &self.0 {
            Some(request) => first_half(hash("bytes", [request.id.as_bytes()])),
            None => clock::random(),
        }
    }

    /// Returns the name of the request in the history of a project, by which a
    /// retry finds its landing; `None` without an `Idempotency-Key`.
    pub(crate) fn landing(&self) -> Option<String> {
        self.0.as_ref().map(|_| self.name("req-"))
    }

    /// Returns the idempotency of one of several parts of the request, which have
    /// separate landings. Parts have no notes.
    pub(crate) fn part(&self, number: u32) -> Self {
        Self(self.0.as_ref().map(|request| {
            let id = format!("{}-{number}", request.id);
            Arc::new(Request {
                id,
                is_again: request.is_again,
                note: Mutex::default(),
                ..request.looked_at()
            })
        }))
    }

    /// Returns the note that this or an earlier attempt has recorded.
    pub(crate) fn noted<T: DeserializeOwned>(&self) -> Option<T> {
        let request = self.0.as_ref()?;
        let made = Self::note_of(request).made.clone()?;
        serde_json::from_str(&made).ok()
    }

    /// Records a note, usually the id of a resource that is about to be created.
    /// After this returns, a retry finds the note even if this process is killed.
    pub(crate) async fn note(&self, made: &(impl Serialize + Sync)) -> Result<()> {
        let Some(request) = &self.0 else {
            return Ok(());
        };
        let made = serde_json::to_string(made).map_err(|error| Failure::internal(&error))?;
        request.catalog.note_made(&request.run, &made).await?;
        Self::note_of(request).made = Some(made);
        Ok(())
    }

    /// Records the command that is about to be started. From now on, a retry
    /// attaches to its output.
    pub(crate) async fn note_command(&self, command: &str) -> Result<()> {
        self.note(&command).await?;
        self.show_command();
        Ok(())
    }

    /// Returns the command that an earlier attempt has recorded. From now on,
    /// other retries attach to its output as well.
    pub(crate) fn noted_command(&self) -> Option<String> {
        let command = self.noted()?;
        self.show_command();
        Some(command)
    }

    /// Lets retries attach to the command while this attempt is running.
    pub(super) fn show_command(&self) {
        let Some(request) = &self.0 else {
            return;
        };
        Self::note_of(request).is_command = true;
        if let Some(working) = request.at_work.lock().get_mut(&request.run.name) {
            working.command = Some(Self(Some(Arc::new(request.looked_at()))));
        }
    }

    /// Clears the note. The caller knows that the resource was not created.
    pub(crate) async fn take_back(&self) -> Result<()> {
        self.note(&()).await?;
        let Some(request) = &self.0 else {
            return Ok(());
        };
        Self::note_of(request).is_command = false;
        if let Some(working) = request.at_work.lock().get_mut(&request.run.name) {
            working.command = None;
        }
        Ok(())
    }

    /// Marks the request as a dry run, so that the client can use the same
    /// `Idempotency-Key` for the real request. Adds `dry_run` to the record of
    /// the request in the audit log.
    pub(crate) fn rehearsed(&self) {
        crate::platform::audit::detail("dry_run", true);
        self.do_not_store();
    }

    /// Lets a retry carry out the request again: its response is not stored.
    pub(crate) fn do_not_store(&self) {
        if let Some(request) = &self.0 {
            Self::note_of(request).is_unstored = true;
        }
    }
}

pub(super) fn first_half(bytes: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    half
}

impl Request {
    /// Returns a copy for a retry that only reads the results.
    pub(super) fn looked_at(&self) -> Self {
        let made = Once::note_of(self).made.clone();
        Self {
            catalog: self.catalog.clone(),
            at_work: self.at_work.clone(),
            run: self.run.clone(),
            id: self.id.clone(),
            is_again: true,
            note: Mutex::new(Note {
                made,
                ..Note::default()
            }),
        }
    }
}
